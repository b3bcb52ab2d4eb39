internal import NIOCore

/// Identifies a server process. The identity changes with every restart and every failover, after which the last writes may be lost.
///
/// It is not the replication id, which also changes while a server runs on, so that two connections would name the same server differently.
public struct RedisServerIdentity: Hashable, Sendable, CustomStringConvertible {
    /// The `run_id` of `INFO server`; empty where the user may not read it.
    public let description: String
    /// The time at which the connection was made that has met the server. It is no part of the identity, but tells which of two servers has had an
    /// address later.
    let connectedAt: NIODeadline

    /// An unknown identity: such a server never appears to have changed.
    static let unknown = RedisServerIdentity(description: "", connectedAt: .distantPast)

    private init(description: String, connectedAt: NIODeadline) {
        self.description = description
        self.connectedAt = connectedAt
    }

    /// Parses the text of `INFO server`; nil when it holds no run id.
    init?(info: String, connectedAt: NIODeadline = .distantPast) {
        let name = "run_id:"
        guard let line = info.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(name) }),
            line.utf8.count > name.utf8.count
        else { return nil }
        self.description = String(line.dropFirst(name.count))
        self.connectedAt = connectedAt
    }

    /// Returns true when both are of the same process.
    public static func == (one: Self, other: Self) -> Bool { one.description == other.description }

    /// Hashes what identifies the process.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.description) }
}
