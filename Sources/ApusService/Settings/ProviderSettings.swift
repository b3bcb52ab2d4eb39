public import ApusCore
internal import Synchronization

/// What the configuration says of an app at one provider: values only, which the provider's own target reads and understands.
public protocol ProviderSettings: Hashable, Sendable {}

/// How the section of one provider within an app's is read: `apps.<app>.<provider>`.
public struct ProviderSection: Sendable {
    let provider: Provider
    let name: String
    let read: @Sendable (SettingsReader, String) -> any ProviderSettings

    /// A section.
    ///
    /// - Parameters:
    ///   - name: the section's, which is the provider's.
    ///   - read: gets the reader and the section's key; notes mistakes with the reader.
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

    /// The sections that this process reads, in the order in which they were installed.
    static var installed: [ProviderSection] { Self.table.withLock { $0 } }

    /// Lets configurations have that section from now on. A program does so before it reads one.
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
