import ApusCore
import ApusInstallation
import ApusRedis
import Testing

/// Tests plans for slots, from tables of clusters alone.
@Suite struct SlotPlanTests {
    private static func endpoint(_ number: Int) -> RedisEndpoint { .host("10.0.0.\(number)", port: 6_379) }

    private static func master(
        _ number: Int,
        _ slots: [ClosedRange<Int>],
        isFailed: Bool = false,
        open: [ClusterNodes.OpenSlot] = [],
    ) -> ClusterNodes.Node {
        ClusterNodes.Node(
            id: "m\(number)",
            endpoint: Self.endpoint(number),
            address: Self.endpoint(number),
            isMaster: true,
            isFailed: isFailed,
            master: nil,
            epoch: UInt64(number),
            slots: slots,
            openSlots: open,
        )
    }

    /// The table of a cluster whose first masters hold equal ranges, and the others nothing.
    private static func nodes(_ holding: Int, empty: Int = 0) -> ClusterNodes {
        let masters = (0..<holding + empty).map { index in
            let range = index * HashTag.slotCount / holding...(index + 1) * HashTag.slotCount / holding - 1
            return Self.master(index + 1, index < holding ? [range] : [])
        }
        return ClusterNodes(nodes: masters)
    }

    /// The table after the moves of a plan.
    private static func applying(_ plan: SlotPlan, to nodes: ClusterNodes) -> ClusterNodes {
        var nodes = nodes
        for move in plan.moves {
            for index in nodes.nodes.indices {
                let id = nodes.nodes[index].id
                if id == move.source {
                    nodes.nodes[index].slots = nodes.nodes[index].slots.flatMap { range -> [ClosedRange<Int>] in
                        guard range.contains(move.slot) else { return [range] }
                        let before = range.lowerBound < move.slot ? [range.lowerBound...move.slot - 1] : []
                        return before + (move.slot < range.upperBound ? [move.slot + 1...range.upperBound] : [])
                    }
                } else if id == move.target {
                    nodes.nodes[index].slots.append(move.slot...move.slot)
                }
            }
        }
        return nodes
    }

    @Test(arguments: [(1, 1), (3, 0), (3, 3), (3, 1), (4, 3), (6, 1), (6, 10), (16, 1), (2, 98)])
    func `After a plan no master has two slots more than another, and the next plan is empty`(
        _ holding: Int,
        _ empty: Int,
    ) throws {
        for (shards, partitions) in [(16, 256), (60, 256), (6, 12), (1, 1), (240, 1_024)] {
            let data = DataSlots(Keyspace(queueShards: shards, devicePartitions: partitions))
            #expect(data.shards.count + data.partitions.count <= shards + partitions)
            let nodes = Self.nodes(holding, empty: empty)
            let plan = try SlotPlan(nodes, data)
            let ids = nodes.nodes.map(\.id)
            for count in [\SlotPlan.Share.shards, \.partitions, \.total] {
                let counts = ids.map { plan.after[$0]?[keyPath: count] ?? 0 }
                #expect((counts.max() ?? 0) - (counts.min() ?? 0) <= 1, "\(shards), \(partitions): \(counts)")
            }
            #expect(plan.after.values.reduce(0) { $0 + $1.total } == data.shards.count + data.partitions.count)
            let after = Self.applying(plan, to: nodes)
            #expect(try SlotPlan(after, data).moves.isEmpty)
            #expect(plan.unfinished == 0 && plan.moves.allSatisfy { data[$0.slot] != nil })
        }
    }

    @Test func `A plan moves no more slots than the masters that have too few lack`() throws {
        let data = DataSlots(Keyspace(queueShards: 60))
        let plan = try SlotPlan(Self.nodes(3, empty: 3), data)
        let targets = Set(["m4", "m5", "m6"])
        #expect(plan.moves.allSatisfy { targets.contains($0.target) && !targets.contains($0.source) })
        #expect(plan.moves.count { if case .shard? = $0.content { true } else { false } } == 30)
        #expect(plan.moves.count == plan.after.filter { targets.contains($0.key) }.values.reduce(0) { $0 + $1.total })
        #expect(plan.imbalance.before > 1.9 && plan.imbalance.after < 1.02)
    }

    @Test func `A new installation of sixty shards is even on the usual numbers of masters`() throws {
        for masters in [2, 3, 4, 5, 6, 10, 12, 15, 20, 30] {
            let keyspace = Keyspace(queueShards: Keyspace.queueShardsOfCluster)
            let plan = try SlotPlan(Self.nodes(masters), DataSlots(keyspace))
            #expect(plan.after.values.allSatisfy { $0.shards == 60 / masters })
        }
    }

    @Test func `A master that leaves gives everything, and the others stay even`() throws {
        let data = DataSlots(Keyspace(queueShards: 60))
        let nodes = Self.nodes(4)
        let plan = try SlotPlan(nodes, data, leaving: [Self.endpoint(2)])
        let after = Self.applying(plan, to: nodes)
        #expect(after.nodes[1].slots.isEmpty)
        #expect(Set(after.nodes.flatMap { $0.slots.joined() }).count == HashTag.slotCount)
        #expect(plan.moves.allSatisfy { $0.source == "m2" && $0.target != "m2" })
        let totals = ["m1", "m3", "m4"].map { plan.after[$0]?.total ?? 0 }
        #expect((totals.max() ?? 0) - (totals.min() ?? 0) <= 1 && plan.after["m2"] == nil)
    }

    @Test func `A move that was begun is ended first, to the master that has a part of it`() throws {
        let data = DataSlots(Keyspace(queueShards: 6, devicePartitions: 6))
        let slot = try #require(data.shards.first)
        var nodes = Self.nodes(2)
        nodes.nodes[0].openSlots = [.init(slot: slot, isImported: false, peer: "m2")]
        nodes.nodes[1].openSlots = [.init(slot: slot, isImported: true, peer: "m1")]
        let plan = try SlotPlan(nodes, data)
        #expect(plan.unfinished == 1 && plan.moves.first == SlotPlan.Move(slot, from: "m1", to: "m2", data[slot]))
        // Then it is even again.
        #expect(plan.moves.count == 2 && plan.moves[1].target == "m1")

        // The one that gave it was replaced, and the mark went with it.
        nodes.nodes[0].openSlots = []
        nodes.nodes[1].openSlots = [.init(slot: slot, isImported: true, peer: "gone")]
        #expect(try SlotPlan(nodes, data).moves.first == SlotPlan.Move(slot, from: "m1", to: "m2", data[slot]))

        // The slot has arrived, but the one that gave it has not heard so.
        nodes.nodes[1].openSlots = []
        nodes.nodes[1].slots.append(slot...slot)
        nodes.nodes[0].slots = [0...slot - 1, slot + 1...HashTag.slotCount / 2 - 1]
        nodes.nodes[0].openSlots = [.init(slot: slot, isImported: false, peer: "m2")]
        #expect(try SlotPlan(nodes, data).unfinished == 0)
    }

    @Test func `A slot without a master, a silent master and strangers are refused`() throws {
        let data = DataSlots(Keyspace())
        var nodes = Self.nodes(3)
        nodes.nodes[1].isFailed = true
        #expect(throws: SlotPlan.Failure.away(Self.endpoint(2))) { try SlotPlan(nodes, data) }
        nodes.nodes[1].isFailed = false
        let missing = nodes.nodes[1].slots[0]
        nodes.nodes[1].slots = []
        let first = try #require(data.shards.first { missing.contains($0) })
        #expect(throws: SlotPlan.Failure.unowned(slot: first)) { try SlotPlan(nodes, data) }
        #expect(throws: SlotPlan.Failure.unknown(Self.endpoint(9))) {
            try SlotPlan(Self.nodes(3), data, leaving: [Self.endpoint(9)])
        }
        #expect(throws: SlotPlan.Failure.noneStays) {
            try SlotPlan(Self.nodes(2), data, leaving: [Self.endpoint(1), Self.endpoint(2)])
        }
    }

    @Test func `Keys are moved together up to a limit, and a large one alone`() {
        let keys = (0..<6).map { Array("k\($0)".utf8) }
        let half = SlotMover.Limits.bytesAtOnceMax / 2
        func sizes(_ bytes: [Int64]) -> [[UInt8]: Int64] { Dictionary(uniqueKeysWithValues: zip(keys, bytes)) }
        #expect(SlotMover.batch(keys, sizes([1, 1, 1, 1, 1, 1])).count == 6)
        #expect(SlotMover.batch(keys, sizes([half, half, 1, 0, 0, 0])).count == 2)
        #expect(SlotMover.batch(keys, sizes([half, half, 0, 1, 0, 0])).count == 3)
        #expect(SlotMover.batch(keys, sizes([2 * half + 1, 1, 1, 1, 1, 1])).count == 1)
        #expect(SlotMover.batch(keys, [:]).count == 6)
    }
}
