package import ApusCore
internal import ApusSimulator

/// Generates random tokens in the providers' forms, which belong to nobody.
package enum SampleToken {
    /// Returns 32 bytes in hexadecimal.
    package static func apple(_ generator: inout SeededGenerator) -> String {
        var bytes: [UInt8] = []
        for _ in 0..<4 {
            let word = generator.next()
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> shift))
            }
        }
        return Hexadecimal.encode(bytes)
    }

    /// Returns a token in the form of a provider.
    package static func random(of provider: Provider, _ generator: inout SeededGenerator) -> String {
        switch provider {
        case .apns: Self.apple(&generator)
        case .fcm: Self.google(&generator)
        case .webpush: Self.browser(&generator)
        default: preconditionFailure("there are no sample tokens of \(provider.name)")
        }
    }

    /// Returns the endpoint of a browser at one of the push services.
    package static func browser(_ generator: inout SeededGenerator) -> String {
        let services = SimulatedBrowser.Service.allCases
        let service = services[Int(generator.next() >> 32) % services.count]
        return service.endpoint(Self.text(22, &generator))
    }

    /// Returns a text like "dGhpc0lzTm8:APA91b…": 152 characters.
    package static func google(_ generator: inout SeededGenerator) -> String {
        let instance = Self.text(11, &generator)
        return "\(instance):APA91b\(Self.text(134, &generator))"
    }

    /// Returns a random text of the alphabet of base64url.
    private static func text(_ count: Int, _ generator: inout SeededGenerator) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        return String(decoding: (0..<count).map { _ in alphabet[Int(generator.next() >> 58)] }, as: UTF8.self)
    }
}
