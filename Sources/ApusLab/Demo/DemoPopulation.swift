package import ApusCore
package import ApusSimulator

/// One device of the demo.
package struct DemoDevice: Hashable, Sendable {
    /// The id, such as `phone-000041`.
    package var id: String
    /// The provider: devices with even positions are iOS; of the others one in ten is a browser and the rest are Android.
    package var provider: Provider
    /// The token in the provider's form.
    package var token: String
    /// The user; each has two devices.
    package var user: String
    /// The topics of the device.
    package var topics: [String]
    /// The token's digest, which simulator and audit use.
    package var digest: TokenDigest
    /// True when the token is dead at the simulator.
    package var isDead: Bool

    /// The body of its registration.
    package var registration: [UInt8] {
        let isBrowser = self.provider == .webpush
        let object: JSONObject = [
            "provider": .string(self.provider.name),
            isBrowser ? "subscription" : "token":
                isBrowser ? SimulatedBrowser(endpoint: self.token).subscription : .string(self.token),
            "user": .string(self.user),
            "topics": .array(self.topics.map { .string($0) }),
            "attributes": ["locale": .string(self.provider == .apns ? "en" : "de"), "app_version": "1.0"],
        ]
        return JSONValue.object(object).bytes
    }
}

/// The devices of a demo, all of them determined by a seed.
package struct DemoPopulation: Sendable {
    /// The topics, and the share of the devices that subscribe to each.
    package static let topics: [(name: String, share: Double)] = [("news", 0.5), ("sport", 0.1), ("chess", 0.005)]

    /// The distance between the positions of browsers.
    private static let browserDistance = 20

    /// The devices.
    package let devices: [DemoDevice]

    /// Creates a population.
    ///
    /// - Parameter hasBrowsers: false when all that are not iOS are Android.
    package init(count: Int, seed: UInt64, dead: DeadShare, hasBrowsers: Bool = true) {
        self.devices = (0..<count).map { Self.device($0, seed: seed, dead: dead, hasBrowsers: hasBrowsers) }
    }

    /// Returns the positions of a topic's subscribers.
    package func subscribers(of topic: String) -> [Int] {
        self.devices.indices.filter { self.devices[$0].topics.contains(topic) }
    }

    /// The positions of the devices with dead tokens.
    package var dead: [Int] { self.devices.indices.filter { self.devices[$0].isDead } }

    /// The first user without a dead device; nil when there is none.
    package var livingUser: (name: String, devices: [Int])? {
        for index in stride(from: 0, to: self.devices.count, by: 2) {
            let own = Array(index..<min(index + 2, self.devices.count))
            if own.allSatisfy({ !self.devices[$0].isDead }) { return (self.devices[index].user, own) }
        }
        return nil
    }

    private static func device(_ index: Int, seed: UInt64, dead: DeadShare, hasBrowsers: Bool) -> DemoDevice {
        var generator = SeededGenerator(seed: seed &+ UInt64(index) &* 0x9e37_79b9_7f4a_7c15)
        let isBrowser = hasBrowsers && index % Self.browserDistance == Self.browserDistance - 1
        let provider: Provider = isBrowser ? .webpush : index.isMultiple(of: 2) ? .apns : .fcm
        let token = SampleToken.random(of: provider, &generator)
        let topics = Self.topics.filter { topic in
            Double(generator.next() >> 11) / 0x1p53 < topic.share
        }
        let digits = String(index)
        let digest = TokenDigest(token, provider: provider)
        return DemoDevice(
            id: "phone-" + String(repeating: "0", count: max(0, 7 - digits.utf8.count)) + digits,
            provider: provider,
            token: token,
            user: "user-\(index / 2)",
            topics: topics.map(\.name),
            digest: digest,
            isDead: dead.contains(digest),
        )
    }
}
