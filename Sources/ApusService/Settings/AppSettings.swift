public import ApusCore

/// Holds one app's settings: its section at each provider, and who may act for it. Values only; the services create
/// keys and connections from them.
public struct AppSettings: Hashable, Sendable {
    /// The rules for who may register and publish.
    public var auth: AuthSettings
    private var sections: [Provider: AnyProviderSettings] = [:]

    /// The app's settings at a provider; nil when it has none.
    public subscript(provider: Provider) -> (any ProviderSettings)? {
        get { self.sections[provider]?.value }
        set { self.sections[provider] = newValue.map { AnyProviderSettings(value: $0) } }
    }

    init(_ reader: SettingsReader, at key: String) {
        for section in ProviderSection.installed where reader.hasSection("\(key).\(section.name)") {
            self.sections[section.provider] = AnyProviderSettings(value: section.read(reader, "\(key).\(section.name)"))
        }
        self.auth = AuthSettings(reader, at: "\(key).auth")
    }
}

extension SettingRule {
    /// Accepts a host without scheme and port.
    public static let host = SettingRule("must be a host name or an IP address") { text in
        !text.isEmpty && text.utf8.count <= 253
            && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x2f && $0 != 0x40 }
    }

    /// Accepts an https address without user and password.
    public static let secureURL = SettingRule("must be an address that begins with https://") { text in
        text.hasPrefix("https://") && text.utf8.count > 8 && text.utf8.count <= 2_048
            && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x40 }
    }
}
