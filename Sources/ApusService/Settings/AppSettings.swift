public import ApusCore

/// Holds one app's settings: its section at each provider, and who may act for it. Values only; the services create
/// keys and connections from them.
public struct AppSettings: Hashable, Sendable {
    /// The rules for who may register and publish.
    public var auth: AuthSettings
    /// The origins of web pages that may call the HTTP API for the app, such as `https://shop.example`.
    public var corsOrigins: [String]
    /// The ids by which Matrix homeservers name the app; empty: the app is none of Matrix.
    public var matrixAppIDs: [String]
    /// The names of the app's receipt streams beside `apus:receipts:<app>`: `orders` is `apus:receipts:<app>:orders`.
    public var receiptStreams: [String]
    private var sections: [Provider: AnyProviderSettings] = [:]

    /// The app's settings at a provider; nil when it has none.
    public subscript(provider: Provider) -> (any ProviderSettings)? {
        get { self.sections[provider]?.value }
        set { self.sections[provider] = newValue.map { AnyProviderSettings(value: $0) } }
    }

    /// True when the app has a section of a provider that this process knows.
    package var hasProviders: Bool { !self.sections.isEmpty }

    /// The settings for subscriptions; nil when no provider of the app has any.
    public var subscriptions: SubscriptionSettings? { self.sections.values.compactMap(\.value.subscriptions).first }

    init(_ reader: SettingsReader, at key: String) {
        for section in ProviderSection.installed where reader.hasSection("\(key).\(section.name)") {
            let settings = reader.withFiles(of: .dispatcher) { section.read(reader, "\(key).\(section.name)") }
            self.sections[section.provider] = AnyProviderSettings(value: settings)
        }
        self.auth = reader.withFiles(of: .registration) { AuthSettings(reader, at: "\(key).auth") }
        self.matrixAppIDs = reader.strings("\(key).matrix.app_ids", default: [])
        if self.matrixAppIDs.contains("") { reader.issue("\(key).matrix.app_ids", "must be a list of app ids") }
        self.receiptStreams = reader.strings("\(key).receipt_streams", default: [])
        if self.receiptStreams.count > Self.receiptStreamsMax || !self.receiptStreams.allSatisfy(Self.isStreamName) {
            reader.issue("\(key).receipt_streams", Self.streamNamesRule)
        }
        self.corsOrigins = reader.strings("\(key).cors_origins", default: [])
        if !self.corsOrigins.allSatisfy(Self.isOrigin) {
            reader.issue("\(key).cors_origins", Self.originRule)
        }
    }
}

extension AppSettings {
    /// The maximum number of an app's named receipt streams. Each holds up to 100,000 receipts.
    static let receiptStreamsMax = 32
    /// The maximum number of characters of such a name: with an app's name it is no longer than `reply_to` may be.
    static let receiptStreamNameBytesMax = 64

    private static let streamNamesRule =
        "must be a list of up to \(receiptStreamsMax) names of 1 to \(receiptStreamNameBytesMax) of a-z, 0-9 and -"

    private static func isStreamName(_ text: String) -> Bool {
        (1...Self.receiptStreamNameBytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2d }
    }

    private static let originRule =
        "must be a list of origins, such as https://shop.example, in lower case; http is for localhost alone"

    /// Returns true when a text is an origin as browsers write it in their requests (RFC 6454 §6.1), and as a service worker may have one: by
    /// https, or on the developer's own machine.
    private static func isOrigin(_ text: String) -> Bool {
        let rest: Substring
        if text.hasPrefix("https://") {
            rest = text.dropFirst("https://".count)
        } else if text == "http://localhost" || text.hasPrefix("http://localhost:") {
            rest = text.dropFirst("http://".count)
        } else {
            return false
        }
        let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
        let isHost =
            !parts[0].isEmpty
            && parts[0].utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2e
            }
        return isHost && parts.count <= 2
            && (parts.count == 1 || (Int(parts[1]).map { (1...65_535).contains($0) } ?? false))
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
