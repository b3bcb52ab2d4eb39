/// Identifies a server process. The identity changes with every restart and every failover, after which the last writes may be lost.
///
/// It is not the replication id, which also changes while a server runs on, so that two connections would name the same server differently.
public struct RedisServerIdentity: Hashable, Sendable, CustomStringConvertible {
    /// The `run_id` of `INFO server`; empty where the user may not read it.
    public let description: String

    /// An unknown identity: such a server never appears to have changed.
    static let unknown = RedisServerIdentity(description: "")

    private init(description: String) { self.description = description }

    /// Parses the text of `INFO server`; nil when it holds no run id.
    init?(info: String) {
        let name = "run_id:"
        guard let line = info.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(name) }),
            line.utf8.count > name.utf8.count
        else { return nil }
        self.description = String(line.dropFirst(name.count))
    }
}
