public import ApusCore
internal import Synchronization

/// The settings of an app at one provider: values only, which the provider's own target reads and interprets.
public protocol ProviderSettings: Hashable, Sendable {
    /// The settings by which registration takes subscriptions; nil unless devices of the provider are subscriptions with own addresses.
    var subscriptions: SubscriptionSettings? { get }
}

extension ProviderSettings {
    /// Nil: most providers give devices a token.
    public var subscriptions: SubscriptionSettings? { nil }
}

/// Holds what registration must know of a provider whose devices subscribe at a server of their own choice.
public struct SubscriptionSettings: Hashable, Sendable {
    /// The hosts beside the known ones that a subscription may lead to; one that begins with a dot stands for all below it.
    public var hosts: [String]
    /// The public key that clients subscribe with, an uncompressed point of 65 bytes; nil when the configuration does not name it.
    public var publicKey: [UInt8]?

    /// Creates the settings.
    public init(hosts: [String], publicKey: [UInt8]?) {
        self.hosts = hosts
        self.publicKey = publicKey
    }
}

/// Describes how an app's section of one provider is read: `apps.<app>.<provider>`.
public struct ProviderSection: Sendable {
    let provider: Provider
    let name: String
    let read: @Sendable (SettingsReader, String) -> any ProviderSettings

    /// Creates a section.
    ///
    /// - Parameters:
    ///   - name: the section's name, which is the provider's.
    ///   - read: reads the section from the reader and the section's key, and reports mistakes to the reader.
    public init(
        _ provider: Provider,
        name: String,
        read: @escaping @Sendable (SettingsReader, String) -> any ProviderSettings,
    ) {
        self.provider = provider
        self.name = name
        self.read = read
    }

    private static let table = Mutex<[ProviderSection]>([])

    /// The sections that this process reads, in the order of their installation.
    static var installed: [ProviderSection] { Self.table.withLock { $0 } }

    /// Makes a section known to all configurations that are read afterwards. Programs call this before they read one.
    public static func install(_ section: ProviderSection) {
        Self.table.withLock { table in
            guard !table.contains(where: { $0.provider == section.provider }) else { return }
            table.append(section)
        }
    }
}

/// Compares settings whose type only their provider knows.
struct AnyProviderSettings: Hashable, Sendable {
    let value: any ProviderSettings

    static func == (one: Self, other: Self) -> Bool { AnyHashable(one.value) == AnyHashable(other.value) }

    func hash(into hasher: inout Hasher) { hasher.combine(AnyHashable(self.value)) }
}
