internal import ApusCore
package import ApusMessages

/// A send as the command line says it.
package struct SendOrder: Hashable, Sendable {
    /// The app.
    package var app = ""
    /// Devices by id.
    package var devices: [String] = []
    /// Users by id.
    package var users: [String] = []
    /// `provider:token`, or `apns-sandbox:token`.
    package var addresses: [String] = []
    /// A topic.
    package var topic: String?
    /// A condition over topics.
    package var condition: String?
    /// Whether all devices are meant.
    package var everyone = false
    /// Headline.
    package var title = ""
    /// Text.
    package var body = ""
    /// `key=value`.
    package var data: [String] = []
    /// `30s`, `5m`, `2h`, `1d`; a bare number is seconds.
    package var ttl: String?
    /// The send's id; empty: made.
    package var id = ""
    /// The idempotency key.
    package var key = ""

    /// An order that says nothing yet.
    package init() {}

    /// What is wrong with an order.
    package struct Misuse: Error, Hashable, Sendable, CustomStringConvertible {
        /// The sentence.
        package let description: String
    }

    /// The command that is ordered.
    package func command() throws(Misuse) -> SendCommand {
        do throws(IdentifierError) {
            _ = try AppID(self.app)
            if !self.id.isEmpty { _ = try SendID(self.id) }
        } catch {
            throw Misuse(description: "\(error)")
        }
        var notification = Notification()
        notification.title = self.title
        notification.body = self.body
        for pair in self.data {
            guard let equals = pair.firstIndex(of: "="), equals != pair.startIndex else {
                throw Misuse(description: "--data is key=value")
            }
            notification.data[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
        }
        if let ttl { notification.expiry = .ttl(milliseconds: try Self.milliseconds(ttl)) }
        if self.title.isEmpty, self.body.isEmpty, self.data.isEmpty {
            throw Misuse(description: "there is nothing to send: give --title, --body or --data")
        }
        var command = SendCommand(app: self.app, target: try self.target(), notification: notification)
        command.id = self.id
        command.idempotencyKey = self.key
        return command
    }

    private func target() throws(Misuse) -> Target {
        var targets: [Target] = []
        if !self.devices.isEmpty { targets.append(.devices(self.devices)) }
        if !self.users.isEmpty { targets.append(.users(self.users)) }
        if !self.addresses.isEmpty {
            var addresses: [Address] = []
            for text in self.addresses { addresses.append(try Self.address(text)) }
            targets.append(.addresses(addresses))
        }
        if let topic { targets.append(.topic(topic)) }
        if let condition { targets.append(.condition(condition)) }
        if self.everyone { targets.append(.everyone([])) }
        guard let target = targets.first, targets.count == 1 else {
            let kinds = "--topic, --device, --user, --address, --condition or --everyone"
            throw Misuse(description: "whom is it for? Give exactly one kind of target: \(kinds)")
        }
        return target
    }

    private static func address(_ text: String) throws(Misuse) -> Address {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[1].isEmpty else { throw Misuse(description: "--address is provider:token") }
        if parts[0] == "apns-sandbox" {
            var address = Address(provider: .apns, token: parts[1])
            address.environment = .sandbox
            return address
        }
        guard let provider = Provider(name: parts[0]) else {
            throw Misuse(description: "--address begins with apns:, apns-sandbox:, fcm: or webpush:")
        }
        return Address(provider: provider, token: parts[1])
    }

    private static func milliseconds(_ text: String) throws(Misuse) -> Int64 {
        let units: [Character: Int64] = ["s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        let scale = text.last.flatMap { units[$0] }
        let digits = scale == nil ? text[...] : text.dropLast()
        guard let count = Int64(digits), count >= 0 else {
            throw Misuse(description: "--ttl is a number of seconds, or has a unit: 30s, 5m, 2h, 1d")
        }
        let (value, overflow) = count.multipliedReportingOverflow(by: scale ?? 1_000)
        guard !overflow else { throw Misuse(description: "--ttl is too long") }
        return value
    }
}
