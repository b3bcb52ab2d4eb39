internal import ApusRedis

/// The masters of a modelled cluster: which of them has which slot, and the slots whose keys are on their way to another. Pure.
///
/// A master that takes the place of one that failed has its address, so a failover changes no slot.
package final class ModelCluster {
    /// The ports of the masters, which are their names.
    package let ports: [Int]
    /// The master of each slot.
    private var owners: [Int]
    /// The slots of each master, as ranges.
    private var ranges: [[ClosedRange<Int>]] = []
    /// The configuration epoch of each master: of two answers about a slot, that of the higher one is newer.
    private var epochs: [Int]
    /// The masters that get slots, key by key.
    private var moves: [Int: Int] = [:]

    /// Creates a cluster whose slots are divided evenly, in ranges.
    package init(ports: [Int]) {
        self.ports = ports
        self.owners = (0..<HashTag.slotCount).map { $0 * ports.count / HashTag.slotCount }
        self.epochs = Array(1...ports.count)
        self.findRanges()
    }

    private func findRanges() {
        self.ranges = self.ports.map { _ in [] }
        var first = 0
        for slot in 1...self.owners.count where slot == self.owners.count || self.owners[slot] != self.owners[first] {
            self.ranges[self.owners[first]].append(first...(slot - 1))
            first = slot
        }
    }

    /// Returns the index of the master that has a slot.
    package func owner(of slot: Int) -> Int { self.owners[slot] }

    /// Returns the master that gets a slot; nil when it stays where it is.
    package func target(of slot: Int) -> Int? { self.moves[slot] }

    /// Begins to move a slot: from now on its owner has some of its keys, and the other master the rest.
    package func beginMove(of slot: Int, to target: Int) {
        precondition(target != self.owners[slot], "a slot moves to another master")
        self.moves[slot] = target
    }

    /// Ends a move: the other master has the slot, and says so with a new epoch.
    package func endMove(of slot: Int) {
        guard let target = self.moves.removeValue(forKey: slot) else { return }
        self.owners[slot] = target
        self.findRanges()
        self.epochs[target] = (self.epochs.max() ?? 0) + 1
    }

    private static func id(_ index: Int) -> String { RedisModel.identity(UInt64(index + 1)) }

    /// Returns what a master answers to `CLUSTER NODES`.
    package func nodes(seenBy own: Int) -> String {
        self.ports.indices.map { index in
            var words = [
                Self.id(index), "127.0.0.1:\(self.ports[index])@\(self.ports[index] + 10_000)",
                index == own ? "myself,master" : "master", "-", "0", "0", "\(self.epochs[index])", "connected",
            ]
            words += self.ranges[index].map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
            // A node tells of its own moves only.
            if index == own {
                for (slot, target) in self.moves.sorted(by: { $0.key < $1.key }) {
                    if self.owners[slot] == own { words.append("[\(slot)->-\(Self.id(target))]") }
                    if target == own { words.append("[\(slot)-<-\(Self.id(self.owners[slot]))]") }
                }
            }
            return words.joined(separator: " ") + "\n"
        }.joined()
    }

    /// Returns the error by which a master sends a command elsewhere; nil when it takes it.
    ///
    /// - Parameter exists: tells whether the master has a key.
    func redirection(of command: [Bytes], at own: Int, exists: (Bytes) -> Bool) -> String? {
        let keys = Self.keys(of: command)
        guard let slot = keys.first.map({ HashTag.slot(ofKey: $0) }) else { return nil }
        guard keys.dropFirst().allSatisfy({ HashTag.slot(ofKey: $0) == slot }) else {
            return "CROSSSLOT Keys in request don't hash to the same slot"
        }
        guard self.owners[slot] == own else { return "MOVED \(slot) 127.0.0.1:\(self.ports[self.owners[slot]])" }
        guard let target = self.moves[slot] else { return nil }
        let missing = keys.count { !exists($0) }
        guard missing > 0 else { return nil }
        guard missing == keys.count else {
            return "TRYAGAIN Multiple keys request during rehashing of slot"
        }
        return "ASK \(slot) 127.0.0.1:\(self.ports[target])"
    }

    /// Returns the keys that a command names.
    static func keys(of command: [Bytes]) -> ArraySlice<Bytes> {
        switch Self.keyPlace(command[0]) {
        case .counted:
            guard command.count > 2, let count = parseInteger(command[2]), count >= 0 else { return [] }
            return command.dropFirst(3).prefix(Int(count))
        case .streams:
            guard let words = command.firstIndex(where: { upper($0) == "STREAMS" }) else { return [] }
            let rest = command.dropFirst(words + 1)
            return rest.prefix(rest.count / 2)
        case .second: return command.dropFirst(2).prefix(1)
        case .all: return command.dropFirst()
        case .none: return []
        case .first: return command.dropFirst().prefix(1)
        }
    }

    /// The place of the keys among a command's arguments.
    private enum KeyPlace {
        case first, second, all, none
        /// Behind their number.
        case counted
        /// Behind the word `STREAMS`.
        case streams
    }

    private static func keyPlace(_ name: Bytes) -> KeyPlace {
        if let place = Self.keyPlaces[ByteKey(name)] { return place }
        guard name.contains(where: { $0 >= 0x61 }) else { return .first }
        return Self.keyPlaces[ByteKey(Bytes(upper(name).utf8))] ?? .first
    }

    /// The commands whose only key is not their first argument.
    private static let keyPlaces: [ByteKey: KeyPlace] = {
        let names: [(KeyPlace, String)] = [
            (.counted, "FCALL FCALL_RO"), (.streams, "XREAD XREADGROUP"), (.second, "XGROUP XINFO OBJECT MEMORY"),
            (.all, "DEL UNLINK EXISTS TOUCH MGET"),
            (.none, "PING ECHO TIME INFO ROLE CONFIG COMMAND CLUSTER FUNCTION KEYS SCAN DBSIZE FLUSHALL CLIENT AUTH"),
            (.none, "SELECT WAIT MULTI EXEC DISCARD LATENCY SLOWLOG ACL HELLO READONLY ASKING"),
        ]
        let pairs = names.flatMap { place, names in
            names.split(separator: " ").map { (ByteKey(Bytes($0.utf8)), place) }
        }
        return Dictionary(uniqueKeysWithValues: pairs)
    }()
}
