/// Which server answers: another one after every start of its process and after every failover. Then the last writes may be undone.
///
/// Not the replication id: it also changes while a server goes on, so that two connections would name the same one differently.
public struct RedisServerIdentity: Hashable, Sendable, CustomStringConvertible {
    /// `run_id` of `INFO server`; empty where the user may not ask.
    public let description: String

    /// Nothing is known: such a server never looks changed.
    static let unknown = RedisServerIdentity(info: "")

    /// From the text of `INFO server`.
    init(info: String) {
        let name = "run_id:"
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name) }
        self.description = line.map { String($0.dropFirst(name.count)) } ?? ""
    }
}
