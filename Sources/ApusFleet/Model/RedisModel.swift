internal import ApusCore
internal import ApusRedis

/// A model of one redis-server: the commands that Apus uses, with time and chance as arguments.
///
/// It does what Redis 7.0 does, with the replies of RESP2. What a server decides by its own state can be set: the clock, whether memory is
/// full, how many replicas confirm, the identity. Where Redis' order is that of a hash table, the model keeps the order of insertion.
///
/// Differences: `SCAN` and its kin return everything in one page; `~` trims exactly, at most a hundred entries a call, as Redis does with
/// one entry a node; the numbers of `XINFO` about radix trees, `entries-read` and `lag` are missing; time stands still during a function.
package final class RedisModel {
    /// A stored value.
    enum Value {
        case string(Bytes)
        case list([Bytes])
        case hash(OrderedTable<Bytes>)
        case set(OrderedTable<Void>)
        case sortedSet(SortedSet)
        case stream(ModelStream)
    }

    struct Entry {
        var value: Value
        /// The time at which the key is gone, in ms; nil keeps it.
        var expiresAt: Int64?
    }

    /// The keys of a server. It is a value, so a copy is a snapshot.
    package struct Database {
        var entries: [ByteKey: Entry] = [:]

        /// Creates an empty database.
        package init() {}
    }

    /// The keys; setting them is a restart with another state.
    package var database = Database()
    /// True to answer as if more memory were used than `maxmemory` allows.
    package var isMadeFull = false
    /// The number of replicas that confirm a write, as `WAIT` tells.
    package var replicas = 0
    /// The identity of the process, as `INFO server` tells.
    package var runID = RedisModel.identity(0)
    /// True when the server calls itself a replica.
    package var isReplica = false
    /// The settings that `CONFIG GET` tells.
    package var settings: [String: String] = ["maxmemory-policy": "noeviction", "appendonly": "yes"]
    /// The cluster that the server is a master of, with its index there; nil for a server that is alone.
    package var cluster: (map: ModelCluster, index: Int)?
    /// Is told of every command of clients with its reply.
    package var tape: ((TapeEntry) -> Void)?
    /// The number of times that a value was changed or a key deleted.
    package private(set) var changes = 0
    /// The number of commands that may have written something, those of functions included.
    package private(set) var writes = 0
    /// The streams that were changed since ``takeChangedStreams()``; nil when any may have been.
    private var changedStreams: Set<Bytes>? = []
    /// The server's clock in µs since 1970, which each command sets.
    package internal(set) var now: Int64 = 0

    var functions: FunctionEngine?
    var generator: SeededGenerator

    /// Returns a process's or a node's identity in Redis' form: forty hexadecimal digits.
    package static func identity(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 40 - digits.utf8.count) + digits
    }

    /// Creates an empty server, whose random members come from a seed.
    package init(seed: UInt64) { self.generator = SeededGenerator(seed: seed) }

    /// The bytes that a server uses before it has a key, as Redis counts them roughly.
    private static let emptyBytes = 1_000_000

    /// The bytes in use, roughly.
    var usedBytes: Int {
        self.database.entries.reduce(Self.emptyBytes) { $0 + $1.key.bytes.count + $1.value.value.byteCount + 64 }
    }

    /// True while more memory is used than `maxmemory` allows.
    package var isFull: Bool {
        if self.isMadeFull { return true }
        guard let limit = self.settings["maxmemory"].flatMap({ Int($0) }), limit > 0 else { return false }
        return self.usedBytes > limit
    }

    var nowMilliseconds: Int64 { self.now / 1_000 }

    /// Executes a command.
    ///
    /// - Parameters:
    ///   - arguments: the command's name and its arguments.
    ///   - now: the server's clock in µs since 1970.
    package func execute(_ arguments: [Bytes], now: Int64) -> ModelReply {
        self.now = now
        let reply = self.perform(arguments)
        self.tape?(TapeEntry(command: arguments, now: now, reply: reply))
        return reply
    }

    private func perform(_ arguments: [Bytes]) -> ModelReply {
        do throws(CommandFault) {
            guard let name = arguments.first else { return .error("ERR empty command") }
            guard let command = RedisModel.command(name) else { throw Self.unknown(arguments) }
            guard command.arity.allows(arguments.count) else { throw RedisModel.arity(command.name) }
            if command.flags.contains(.denyOOM), self.isFull {
                throw CommandFault("OOM command not allowed when used memory > 'maxmemory'.")
            }
            if command.flags.contains(.write), self.isReplica {
                throw CommandFault("READONLY You can't write against a read only replica.")
            }
            if command.flags.contains(.write) { self.writes += 1 }
            return try command.run(self, arguments)
        } catch {
            return .error(error.text)
        }
    }

    /// Returns the error by which a master of a cluster sends a command elsewhere; nil when it takes it.
    func redirection(of arguments: [Bytes]) -> String? {
        self.cluster.flatMap { $0.map.redirection(of: arguments, at: $0.index) { self.exists($0) } }
    }

    /// Gives a key to another server, as `MIGRATE` does.
    package func give(_ key: Bytes, to other: RedisModel) {
        guard let entry = self.database.entries.removeValue(forKey: ByteKey(key)) else { return }
        other.database.entries[ByteKey(key)] = entry
        for model in [self, other] {
            model.writes += 1
            model.noteChange()
        }
    }

    /// Deletes the keys of slots that other masters have, as a server does that hears of it when it takes over.
    func deleteKeysOfOthers() {
        guard let cluster = self.cluster else { return }
        let others = self.database.entries.keys.filter {
            cluster.map.owner(of: HashTag.slot(ofKey: $0.bytes)) != cluster.index
        }
        for key in others { self.database.entries[key] = nil }
    }

    /// The slots that have keys.
    package var slots: Set<Int> { Set(self.database.entries.keys.map { HashTag.slot(ofKey: $0.bytes) }) }

    /// Returns the keys of a slot.
    package func keys(ofSlot slot: Int) -> [Bytes] {
        self.database.entries.keys.map(\.bytes).filter { HashTag.slot(ofKey: $0) == slot }
            .sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Returns whether a command is known and has the right number of arguments.
    func accepts(_ arguments: [Bytes]) -> Bool {
        arguments.first.flatMap { Self.command($0) }?.arity.allows(arguments.count) ?? false
    }

    /// Notes that a value was changed without `change`.
    func noteChange() {
        self.changes += 1
        self.changedStreams = nil
    }

    /// Returns the streams that were changed since the last call; nil when any may have been.
    func takeChangedStreams() -> Set<Bytes>? {
        defer { self.changedStreams = [] }
        return self.changedStreams
    }

    /// Reads entries at a time.
    ///
    /// - Parameter command: the command of the read, for the tape.
    func perform(_ read: StreamRead, _ command: [Bytes], now: Int64) throws(CommandFault) -> ModelReply? {
        self.now = now
        let reply = try self.perform(read)
        if reply != nil { self.writes += 1 }
        if let reply { self.tape?(TapeEntry(command: command, now: now, reply: reply)) }
        return reply
    }

    /// Executes a command that a function calls.
    func executeInFunction(_ arguments: [Bytes], _ allowed: FunctionEngine.Permissions) -> ModelReply {
        do throws(CommandFault) {
            guard let name = arguments.first, let command = RedisModel.command(name) else {
                throw CommandFault("ERR Unknown Redis command called from script")
            }
            guard command.arity.allows(arguments.count) else {
                throw CommandFault("ERR Wrong number of args calling Redis command from script")
            }
            guard !command.flags.contains(.noScript) else {
                throw CommandFault("ERR This Redis command is not allowed from script")
            }
            if command.flags.contains(.write), !allowed.mayWrite {
                throw CommandFault("ERR Write commands are not allowed from read-only scripts.")
            }
            if self.redirection(of: arguments) != nil {
                throw CommandFault("ERR Script attempted to access a non local key in a cluster node")
            }
            if command.flags.contains(.write) { self.writes += 1 }
            return try command.run(self, arguments)
        } catch {
            return .error(error.text)
        }
    }

    private static func unknown(_ arguments: [Bytes]) -> CommandFault {
        let shown = arguments.dropFirst().map { "'\(String(decoding: $0.prefix(128), as: UTF8.self))' " }.joined()
        let name = String(decoding: arguments[0].prefix(128), as: UTF8.self)
        return CommandFault("ERR unknown command '\(name)', with args beginning with: \(shown)")
    }

    static func arity(_ name: String) -> CommandFault {
        CommandFault("ERR wrong number of arguments for '\(name.lowercased())' command")
    }
}

/// A kind of value that a key can hold.
protocol StoredKind {
    init?(_ value: RedisModel.Value)
    var stored: RedisModel.Value { get }
    /// True when a key with this value is gone.
    var isGone: Bool { get }
}

extension RedisModel {
    /// Returns whether a key is there.
    func exists(_ key: Bytes) -> Bool { self.place(of: key) != nil }

    /// Returns the entry of a key that has not expired.
    func entry(_ key: Bytes) -> Entry? { self.place(of: key).map { self.database.entries.values[$0] } }

    /// Returns the place of a key that has not expired.
    private func place(of key: Bytes) -> Dictionary<ByteKey, Entry>.Index? {
        guard let place = self.database.entries.index(forKey: ByteKey(key)) else { return nil }
        if let end = self.database.entries.values[place].expiresAt, end < self.nowMilliseconds {
            self.database.entries.remove(at: place)
            return nil
        }
        return place
    }

    /// The keys that have not expired, in no order.
    func unsortedKeys() -> [Bytes] {
        let now = self.nowMilliseconds
        let entries = self.database.entries
        for place in entries.indices {
            if let end = entries.values[place].expiresAt, end < now {
                self.database.entries[entries.keys[place]] = nil
            }
        }
        return self.database.entries.keys.map(\.bytes)
    }

    /// Reads a value of one kind; nil when the key is missing.
    func read<Kind: StoredKind>(_ key: Bytes, _ kind: Kind.Type = Kind.self) throws(CommandFault) -> Kind? {
        guard let entry = self.entry(key) else { return nil }
        guard let value = Kind(entry.value) else { throw .wrongType }
        return value
    }

    /// Changes a value of one kind in place, and deletes the key when nothing is left in it.
    ///
    /// - Parameters:
    ///   - missing: the value to begin with when the key is missing.
    ///   - body: changes the value, and no other key.
    func change<Kind: StoredKind, Result>(
        _ key: Bytes,
        missing: Kind,
        _ body: (inout Kind) throws(CommandFault) -> Result,
    ) throws(CommandFault) -> Result {
        var value = missing
        let place = self.place(of: key)
        if let place {
            guard let found = Kind(self.database.entries.values[place].value) else { throw .wrongType }
            value = found
            // The value has one owner while it changes, so that it is not copied.
            self.database.entries.values[place].value = .string([])
        }
        defer {
            if let place {
                if value.isGone {
                    self.database.entries.remove(at: place)
                } else {
                    self.database.entries.values[place].value = value.stored
                }
            } else if !value.isGone {
                self.database.entries[ByteKey(key)] = Entry(value: value.stored, expiresAt: nil)
            }
            self.changes += 1
            if Kind.self == ModelStream.self || value.isGone { self.changedStreams?.insert(key) }
        }
        return try body(&value)
    }

    /// Changes a value that must be there; returns nil when it is not.
    func changeExisting<Kind: StoredKind, Result>(
        _ key: Bytes,
        _ kind: Kind.Type,
        empty: Kind,
        _ body: (inout Kind) throws(CommandFault) -> Result,
    ) throws(CommandFault) -> Result? {
        guard self.exists(key) else { return nil }
        return try self.change(key, missing: empty, body)
    }
}

struct StoredString: StoredKind {
    var bytes: Bytes

    init(_ bytes: Bytes) { self.bytes = bytes }

    init?(_ value: RedisModel.Value) {
        guard case .string(let bytes) = value else { return nil }
        self.bytes = bytes
    }

    var stored: RedisModel.Value { .string(self.bytes) }
    var isGone: Bool { false }
}

struct StoredList: StoredKind {
    var elements: [Bytes] = []

    init() {}

    init?(_ value: RedisModel.Value) {
        guard case .list(let elements) = value else { return nil }
        self.elements = elements
    }

    var stored: RedisModel.Value { .list(self.elements) }
    var isGone: Bool { self.elements.isEmpty }
}

struct StoredHash: StoredKind {
    var fields = OrderedTable<Bytes>()

    init() {}

    init?(_ value: RedisModel.Value) {
        guard case .hash(let fields) = value else { return nil }
        self.fields = fields
    }

    var stored: RedisModel.Value { .hash(self.fields) }
    var isGone: Bool { self.fields.isEmpty }
}

struct StoredSet: StoredKind {
    var members = OrderedTable<Void>()

    init() {}

    init?(_ value: RedisModel.Value) {
        guard case .set(let members) = value else { return nil }
        self.members = members
    }

    var stored: RedisModel.Value { .set(self.members) }
    var isGone: Bool { self.members.isEmpty }
}

extension SortedSet: StoredKind {
    init?(_ value: RedisModel.Value) {
        guard case .sortedSet(let set) = value else { return nil }
        self = set
    }

    var stored: RedisModel.Value { .sortedSet(self) }
    var isGone: Bool { self.elements.isEmpty }
}

extension ModelStream: StoredKind {
    init?(_ value: RedisModel.Value) {
        guard case .stream(let stream) = value else { return nil }
        self = stream
    }

    var stored: RedisModel.Value { .stream(self) }
    var isGone: Bool { false }
}
