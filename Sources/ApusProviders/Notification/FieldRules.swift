package import ApusCore
package import ApusMessages

/// Checks single fields, whatever the provider. Each rule throws a `Problem` that names the field's path and the rule.
/// A path is built only when it is needed: hardly any notification breaks a rule.
package enum FieldRules {
    /// The maximum bytes of a collapse key.
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    static let collapseKeyBytesMax = 64
    /// The maximum bytes of a link or a picture's address.
    package static let linkBytesMax = 2_048
    /// The maximum bytes of a language tag (RFC 5646 §4.4.1: 35 hold every sensible one).
    package static let localeBytesMax = 35

    /// Returns the path of a map's entry. The key is the publisher's: it is shortened, and control characters are removed.
    package static func path(_ field: String, _ key: String) -> String {
        "\(field)[\(ProviderText.cleaned(key).clipped(toBytes: 64))]"
    }

    /// Checks the length of a text.
    package static func length(
        _ text: String,
        _ field: @autoclosure () -> String,
        bytesMax: Int,
    ) throws(Problem) {
        guard text.utf8.count <= bytesMax else {
            throw Problem(.tooLong, field(), "must be at most \(bytesMax) bytes")
        }
    }

    /// Checks the arguments of a localised text: their number is limited, and they need the key whose placeholders they fill.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
    /// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
    package static func localization(
        key: String,
        arguments: [String],
        _ field: @autoclosure () -> String,
    ) throws(Problem) {
        guard !key.isEmpty || !arguments.isEmpty else { return }
        let field = field()
        try Self.length(key, "\(field)_loc_key", bytesMax: Limits.nameBytesMax)
        guard arguments.count <= Limits.localizationArgumentsMax else {
            throw Problem(.tooMany, "\(field)_loc_args", "must be at most \(Limits.localizationArgumentsMax)")
        }
        guard arguments.isEmpty || !key.isEmpty else {
            throw Problem(
                .missing,
                "\(field)_loc_key",
                "is required with \(field.split(separator: ".").last ?? "")_loc_args"
            )
        }
        for (index, argument) in arguments.enumerated() {
            try Self.length(argument, "\(field)_loc_args[\(index)]", bytesMax: Limits.textBytesMax)
        }
    }

    /// Checks a value that stands in a header: visible ASCII, spaces only inside.
    package static func collapseKey(_ key: String, _ field: String) throws(Problem) {
        try Self.length(key, field, bytesMax: Self.collapseKeyBytesMax)
        let valid =
            key.utf8.allSatisfy { (0x20...0x7e).contains($0) } && key.utf8.first != 0x20 && key.utf8.last != 0x20
        guard valid else {
            throw Problem(.invalid, field, "must be visible ASCII characters, without spaces at its ends")
        }
    }

    /// Checks a colour of the form `#rrggbb`.
    package static func color(_ color: String, _ field: String) throws(Problem) {
        let digits = Array(color.utf8.dropFirst())
        guard color.utf8.first == 0x23, digits.count == 6, Hexadecimal.decode(color.dropFirst()) != nil else {
            throw Problem(.invalid, field, "must be a color of the form #rrggbb")
        }
    }

    /// Checks an https URL of visible ASCII characters.
    package static func link(_ link: String, _ field: String) throws(Problem) {
        try Self.length(link, field, bytesMax: Self.linkBytesMax)
        guard Self.isHTTPS(link), link.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw Problem(.invalid, field, "must be an https URL")
        }
    }

    /// Returns true when a click action is a link, which only browsers follow, and not an Android intent filter.
    package static func isHTTPS(_ text: String) -> Bool {
        text.utf8.count > 8 && text.prefix(8).lowercased() == "https://"
    }

    /// Checks a language tag: letters, digits and hyphens.
    package static func locale(_ locale: String, _ field: String) throws(Problem) {
        guard (1...Self.localeBytesMax).contains(locale.utf8.count), locale.utf8.allSatisfy(Self.isLocaleByte) else {
            throw Problem(.invalid, field, "must be a language tag such as fr or pt-BR")
        }
    }

    private static func isLocaleByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d: true
        default: false
        }
    }

    /// Parses a JSON object within the limits; nil when the text is empty.
    package static func jsonObject(_ text: String, _ field: String) throws(Problem) -> JSONObject? {
        guard !text.isEmpty else { return nil }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: text, bytesMax: Limits.jsonOverrideBytesMax)
        } catch {
            throw Problem(.malformedJSON, field, error.description)
        }
        guard let object = value.object else {
            throw Problem(.malformedJSON, field, "must be a JSON object")
        }
        return object
    }
}

/// Cleans texts of providers for logs and receipts.
package enum ProviderText {
    /// Returns at most `Limits.providerTextBytesMax` bytes, without control characters, which could forge a log line or control a terminal.
    package static func cleaned(_ text: String) -> String {
        // Nearly every text of a provider is short and plain, and comes with every answer.
        if text.utf8.count <= Limits.providerTextBytesMax, text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) {
            return text
        }
        let scalars = text.unicodeScalars.lazy.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Unicode.Scalar(0x20 as UInt8)
            default: scalar
            }
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars.prefix(Limits.providerTextBytesMax))
        return String(result).clipped(toBytes: Limits.providerTextBytesMax)
    }
}
