/// Which server answers: another one after every start of its process and after every failover. Then the last writes may be undone.
///
/// Not the replication id: it also changes while a server goes on, so that two connections would name the same one differently.
public struct RedisServerIdentity: Hashable, Sendable, CustomStringConvertible {
    /// `run_id` of `INFO server`; empty where the user may not ask.
    public let description: String

    /// Nothing is known: such a server never looks changed.
    static let unknown = RedisServerIdentity(description: "")

    private init(description: String) { self.description = description }

    /// Reads the text of `INFO server`; nil when no run id is in it.
    init?(info: String) {
        let name = "run_id:"
        guard let line = info.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(name) }),
            line.utf8.count > name.utf8.count
        else { return nil }
        self.description = String(line.dropFirst(name.count))
    }
}
