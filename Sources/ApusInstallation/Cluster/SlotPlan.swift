package import ApusRedis

/// Plans the moves that spread the slots with data evenly over the masters of a Redis Cluster. Pure.
///
/// Each master gets the same number of queue shards and of device partitions, or one more, and no two masters differ by more than
/// one slot in all. Slots move only from a master that has too many, so a plan that was carried out is followed by an empty one. A master
/// that leaves gives away all of its slots, those without data too.
package struct SlotPlan: Hashable, Sendable {
    /// The move of one slot.
    package struct Move: Hashable, Sendable {
        /// The slot.
        package var slot: Int
        /// The id of the master that has the slot.
        package var source: String
        /// The id of the master that gets it.
        package var target: String
        /// The content of the slot; nil for a slot without a shard or partition.
        package var content: DataSlots.Content?

        /// Creates a move.
        package init(_ slot: Int, from source: String, to target: String, _ content: DataSlots.Content? = nil) {
            self.slot = slot
            self.source = source
            self.target = target
            self.content = content
        }
    }

    /// The number of slots with data that a master has.
    package struct Share: Hashable, Sendable {
        /// The number of queue shards.
        package var shards = 0
        /// The number of device partitions.
        package var partitions = 0
        /// The number of both.
        package var total: Int { self.shards + self.partitions }

        /// Creates a share.
        package init(shards: Int = 0, partitions: Int = 0) {
            self.shards = shards
            self.partitions = partitions
        }
    }

    /// Reports why there is no plan.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// A slot with data has no master.
        case unowned(slot: Int)
        /// The master that holds a slot with data does not answer.
        case away(RedisEndpoint)
        /// The node is to leave, and is no master of the cluster.
        case unknown(RedisEndpoint)
        /// All masters are to leave.
        case noneStays

        /// The sentence.
        package var description: String {
            switch self {
            case .unowned(let slot): "slot \(slot) has data and no master"
            case .away(let endpoint): "the master \(endpoint) does not answer"
            case .unknown(let endpoint): "\(endpoint) is no master of the cluster"
            case .noneStays: "no master would be left"
            }
        }
    }

    /// The masters by id, in the order of their addresses; those that leave are among them.
    package let masters: [ClusterNodes.Node]
    /// The number of masters that stay.
    let staying: Int
    /// The moves, unfinished ones first.
    package let moves: [Move]
    /// The number of those moves that were begun before.
    package let unfinished: Int
    /// The slots with data of each master now, by id.
    package let before: [String: Share]
    /// The same after all moves.
    package let after: [String: Share]

    /// Plans.
    ///
    /// - Parameters:
    ///   - nodes: the nodes of the cluster, with the open slots of all of them.
    ///   - leaving: the addresses of masters that are to be left without slots.
    /// - Throws: `Failure` when a slot with data cannot be moved.
    package init(_ nodes: ClusterNodes, _ data: DataSlots, leaving: Set<RedisEndpoint> = []) throws(Failure) {
        let masters = nodes.nodes.filter { $0.isMaster }.sorted { "\($0.endpoint)" < "\($1.endpoint)" }
        for endpoint in leaving.sorted(by: { "\($0)" < "\($1)" }) {
            guard masters.contains(where: { $0.endpoint == endpoint || $0.address == endpoint }) else {
                throw .unknown(endpoint)
            }
        }
        let isLeaving = { (node: ClusterNodes.Node) in
            leaving.contains(node.endpoint) || leaving.contains(node.address)
        }
        let staying = masters.filter { !$0.isFailed && !isLeaving($0) }
        guard !staying.isEmpty else { throw .noneStays }

        var owners = [String?](repeating: nil, count: HashTag.slotCount)
        for master in masters { for slot in master.slots.joined() { owners[slot] = master.id } }
        let before = Self.shares(owners, data)
        let finished = Self.unfinishedMoves(masters, owners, data)
        for move in finished { owners[move.slot] = move.target }

        let failed = Dictionary(uniqueKeysWithValues: masters.filter(\.isFailed).map { ($0.id, $0.endpoint) })
        for slot in data.shards + data.partitions {
            guard let owner = owners[slot] else { throw .unowned(slot: slot) }
            if let endpoint = failed[owner] { throw .away(endpoint) }
        }
        var moves = finished
        let shardMoves = Self.spread(data.shards, owners, over: staying.map(\.id), avoiding: [])
        for move in shardMoves { owners[move.slot] = move.target }
        // Masters with one shard more get one partition less.
        let shares = Self.shares(owners, data)
        func shards(_ id: String) -> Int { shares[id]?.shards ?? 0 }
        let fewest = staying.map { shards($0.id) }.min() ?? 0
        let full = Set(staying.map(\.id).filter { shards($0) > fewest })
        let partitionMoves = Self.spread(data.partitions, owners, over: staying.map(\.id), avoiding: full)
        for move in partitionMoves { owners[move.slot] = move.target }
        moves += (shardMoves + partitionMoves).map { Move($0.slot, from: $0.source, to: $0.target, data[$0.slot]) }

        var turn = 0
        for master in masters where isLeaving(master) {
            for range in master.slots {
                var target: String?
                for slot in range where owners[slot] == master.id && data[slot] == nil {
                    // A range without data goes to one master, so that the cluster's table stays short.
                    let chosen = target ?? staying[turn % staying.count].id
                    target = chosen
                    owners[slot] = chosen
                    moves.append(Move(slot, from: master.id, to: chosen))
                }
                turn += target == nil ? 0 : 1
            }
        }
        self.masters = masters
        self.staying = staying.count
        self.moves = moves
        self.unfinished = finished.count
        self.before = before
        self.after = Self.shares(owners, data)
    }

    /// The number of slots with data of the fullest master, as a multiple of the mean of the masters that stay, before and after.
    package var imbalance: (before: Double, after: Double) {
        func imbalance(_ shares: [String: Share]) -> Double {
            let sum = shares.values.reduce(0) { $0 + $1.total }
            return sum == 0 ? 1 : Double(shares.values.map(\.total).max() ?? 0) * Double(self.staying) / Double(sum)
        }
        return (imbalance(self.before), imbalance(self.after))
    }

    // MARK: Decisions

    /// Returns the moves that were begun and not ended, as both nodes tell of them.
    private static func unfinishedMoves(
        _ masters: [ClusterNodes.Node],
        _ owners: [String?],
        _ data: DataSlots,
    ) -> [Move] {
        var moves: [Int: Move] = [:]
        let living = Set(masters.filter { !$0.isFailed }.map(\.id))
        for master in masters {
            for open in master.openSlots {
                let (source, target) = open.isImported ? (open.peer, master.id) : (master.id, open.peer)
                // A source that was replaced has lost its mark; the target's peer is then no longer the owner.
                guard let owner = owners[open.slot], owner != target, living.contains(target), living.contains(owner),
                    open.isImported || owner == source
                else { continue }
                // The mark of the source decides: it says where keys have gone.
                if open.isImported, moves[open.slot] != nil { continue }
                moves[open.slot] = Move(open.slot, from: owner, to: target, data[open.slot])
            }
        }
        return moves.values.sorted { $0.slot < $1.slot }
    }

    /// Returns the fewest moves after which each of the masters has the same number of those slots, or one more.
    ///
    /// - Parameter full: masters that get one more only when all others have one more.
    private static func spread(
        _ slots: [Int],
        _ owners: [String?],
        over masters: [String],
        avoiding full: Set<String>,
    ) -> [Move] {
        var held: [String: [Int]] = [:]
        for slot in slots { held[owners[slot] ?? "", default: []].append(slot) }
        let base = slots.count / masters.count
        let order = masters.indices.sorted { one, other in
            func rank(_ index: Int) -> (Int, Int, Int) {
                (full.contains(masters[index]) ? 1 : 0, -(held[masters[index]]?.count ?? 0), index)
            }
            return rank(one) < rank(other)
        }
        var room: [String: Int] = [:]
        for (place, index) in order.enumerated() {
            let target = base + (place < slots.count % masters.count ? 1 : 0)
            room[masters[index]] = target - (held[masters[index]]?.count ?? 0)
        }
        var surplus: [Int] = []
        for (owner, slots) in held {
            // A master that does not stay has no room: all of its slots go.
            let excess = room[owner].map { max(0, -$0) } ?? slots.count
            surplus += slots.suffix(excess)
        }
        var moves: [Move] = []
        for slot in surplus.sorted() {
            guard let target = masters.max(by: { (room[$0] ?? 0, $1) < (room[$1] ?? 0, $0) }), (room[target] ?? 0) > 0
            else { break }
            room[target, default: 0] -= 1
            moves.append(Move(slot, from: owners[slot] ?? "", to: target))
        }
        return moves
    }

    private static func shares(_ owners: [String?], _ data: DataSlots) -> [String: Share] {
        var shares: [String: Share] = [:]
        for slot in data.shards { if let owner = owners[slot] { shares[owner, default: Share()].shards += 1 } }
        for slot in data.partitions { if let owner = owners[slot] { shares[owner, default: Share()].partitions += 1 } }
        return shares
    }
}
