import ApusRedis
import NIOCore
import Testing

/// The map of a cluster, driven by answers and time alone.
@Suite struct ClusterMapTests {
    private let seed = RedisEndpoint.host("seed", port: 7_000)
    private let a = Self.endpoint("a")
    private let b = Self.endpoint("b")
    private let c = Self.endpoint("c")
    /// The replica of `a`.
    private let d = Self.endpoint("d")

    private static func endpoint(_ name: String) -> RedisEndpoint { .host("10.0.0.\(name)", port: 6_379) }

    private static func time(_ milliseconds: Int64) -> NIODeadline {
        .uptimeNanoseconds(1_000_000_000) + .milliseconds(milliseconds)
    }

    /// A line of `CLUSTER NODES`.
    private func line(_ name: String, _ flags: String, master: String = "-", epoch: Int, _ slots: String = "") -> String
    {
        "\(name) 10.0.0.\(name):6379@16379 \(flags) \(master) 0 0 \(epoch) connected\(slots.isEmpty ? "" : " \(slots)")"
    }

    private func answer(_ lines: String...) throws -> ClusterNodes {
        try ClusterNodes(lines.joined(separator: "\n"), from: self.a)
    }

    /// Three masters and a replica of the first.
    private func whole(a slots: String = "0-5460", b: String = "5461-10922", epochB: Int = 2) throws -> ClusterNodes {
        try self.answer(
            self.line("a", "myself,master", epoch: 1, slots),
            self.line("b", "master", epoch: epochB, b),
            self.line("c", "master", epoch: 3, "10923-16383"),
            self.line("d", "slave", master: "a", epoch: 1),
        )
    }

    /// A map that knows all four, at time zero.
    private func known() throws -> ClusterMap {
        var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
        let asked = map.takeQuestions(now: Self.time(0), draw: 0)
        #expect(asked == [self.seed])
        map.answered(try self.whole(), by: self.seed, now: Self.time(0), draw: 0)
        return map
    }

    // MARK: Answers

    @Test func `An empty map asks its seeds at once, and knows every server after an answer`() throws {
        var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
        #expect(map.endpoint(forSlot: 0) == nil)
        #expect(!map.isComplete)
        #expect(map.takeQuestions(now: Self.time(0), draw: 0.9) == [self.seed])
        #expect(map.takeQuestions(now: Self.time(1), draw: 0.9).isEmpty)
        map.answered(try self.whole(), by: self.seed, now: Self.time(5), draw: 0.9)
        #expect(map.isComplete)
        #expect(map.endpoint(forSlot: 0) == self.a)
        #expect(map.endpoint(forSlot: 5_461) == self.b)
        #expect(map.endpoint(forSlot: 16_383) == self.c)
        #expect(map.masters == [self.a, self.b, self.c])
        #expect(map.servers == [self.a, self.b, self.c, self.d])
    }

    @Test func `A map in which some slots stay without a server says so after a while, and not before an answer`()
        throws
    {
        var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
        #expect(!map.isIncomplete(for: .zero, now: Self.time(9_000)))
        _ = map.takeQuestions(now: Self.time(0), draw: 0)
        map.unanswered(by: self.seed, now: Self.time(1), draw: 0)
        #expect(!map.isIncomplete(for: .zero, now: Self.time(9_000)))
        let hole = try self.whole(a: "1-5460")
        for time: Int64 in [1_000, 2_000, 3_000] {
            _ = map.takeQuestions(now: Self.time(time), draw: 0)
            map.answered(hole, by: self.seed, now: Self.time(time), draw: 0)
        }
        #expect(!map.isIncomplete(for: .seconds(2), now: Self.time(2_999)))
        #expect(map.isIncomplete(for: .seconds(2), now: Self.time(3_000)))
        #expect(map.masters == [self.a, self.b, self.c] && map.endpoint(forSlot: 0) == nil)
        let due = map.dueAt
        _ = map.takeQuestions(now: due, draw: 0)
        for node in [self.seed, self.a, self.b, self.c, self.d] {
            map.answered(try self.whole(), by: node, now: due, draw: 0)
        }
        #expect(!map.isIncomplete(for: .zero, now: due + .seconds(9)))
    }

    @Test func `Of two answers the one with the higher epoch holds, in either order`() throws {
        let old = try self.whole()
        let new = try self.whole(a: "1-5460", b: "0 5461-10922", epochB: 4)
        for answers in [[old, new], [new, old]] {
            var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
            for answer in answers { map.answered(answer, by: self.a, now: Self.time(0), draw: 0) }
            #expect(map.endpoint(forSlot: 0) == self.b)
            #expect(map.endpoint(forSlot: 1) == self.a)
        }
    }

    @Test func `A slot that nobody holds keeps the map incomplete, and the next question soon`() throws {
        var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
        _ = map.takeQuestions(now: Self.time(0), draw: 0)
        map.answered(try self.whole(a: "1-5460"), by: self.seed, now: Self.time(0), draw: 1 - 1e-9)
        #expect(!map.isComplete)
        #expect(map.endpoint(forSlot: 0) == nil)
        #expect(map.dueAt <= Self.time(200))
    }

    @Test func `A node that was reset or forgotten changes nothing`() throws {
        var map = try self.known()
        let (masters, servers) = (map.masters, map.servers)
        // One that was reset has another id, or its own and no others; a forgotten one knows all of them.
        let answers = [
            try self.answer(self.line("e", "myself,master", epoch: 0)),
            try self.answer(self.line("d", "myself,master", epoch: 0)),
            try self.answer(
                self.line("e", "myself,slave", master: "a", epoch: 1),
                self.line("a", "master", epoch: 9, "0-16383"),
                self.line("b", "master", epoch: 2),
                self.line("c", "master", epoch: 3),
            ),
        ]
        var now = Self.time(20)
        for answer in answers {
            map.answered(answer, by: self.d, now: now, draw: 0)
            #expect(map.masters == masters && map.servers == servers)
            #expect(map.endpoint(forSlot: 10_000) == self.b)
            map.answered(try self.whole(), by: self.a, now: now, draw: 0)
            now = now + ClusterMap.replacementMin
        }
        // A planned move is still known as one.
        let before = try #require(map.holder(ofSlot: 0))
        let moved = try self.whole(a: "1-5460", b: "0 5461-10922", epochB: 4)
        map.answered(answers[0], by: self.d, now: now, draw: 0)
        map.answered(moved, by: self.a, now: now, draw: 0)
        #expect(map.holder(ofSlot: 0)?.isPlannedMove(from: before) == true)
        #expect(map.masters == masters)
    }

    @Test func `A cluster in the place of another one is taken once nobody of the old one answers for 2 s`() throws {
        var map = try self.known()
        let new = try self.answer(
            self.line("e", "myself,master", epoch: 1, "0-9999"),
            self.line("f", "master", epoch: 0, "10000-16383"),
        )
        let half = try self.answer(self.line("e", "myself,master", epoch: 1, "0-9999"))
        map.answered(new, by: self.seed, now: Self.time(10), draw: 0)
        #expect(map.masters == [self.a, self.b, self.c])
        // The next question comes soon.
        let asked = map.takeQuestions(now: Self.time(15_000), draw: 0)
        for endpoint in asked { map.answered(half, by: endpoint, now: Self.time(15_000), draw: 0) }
        #expect(map.masters == [self.a, self.b, self.c])
        #expect(map.dueAt < Self.time(15_300))
        map.answered(new, by: self.seed, now: Self.time(15_100), draw: 0)
        #expect(map.masters == [Self.endpoint("e"), Self.endpoint("f")])
        #expect(map.endpoint(forSlot: 9_999) == Self.endpoint("e"))
        #expect(map.holder(ofSlot: 16_000) == SlotHolder(node: "f", failovers: 1))
    }

    @Test func `A claim of an older epoch holds once two answers miss the owner, or say that it failed`() throws {
        for flags in [nil, "master,fail"] {
            var map = try self.known()
            var lines = [
                self.line("b", "master", epoch: 2, "5461-10922"),
                self.line("c", "myself,master", epoch: 3, "10923-16383"),
                self.line("d", "master", epoch: 0, "0-5460"),
            ]
            if let flags { lines.append(self.line("a", flags, epoch: 1)) }
            let answer = try ClusterNodes(lines.joined(separator: "\n"), from: self.c)
            map.answered(answer, by: self.c, now: Self.time(10), draw: 0)
            #expect(map.endpoint(forSlot: 0) == self.a)
            // A node that has not heard of it yet begins the count anew.
            let old = try self.answer(
                self.line("a", "master", epoch: 1, "0-5460"),
                self.line("b", "myself,master", epoch: 2, "5461-10922"),
                self.line("c", "master", epoch: 3, "10923-16383"),
                self.line("d", "slave", master: "a", epoch: 1),
            )
            map.answered(old, by: self.b, now: Self.time(20), draw: 0)
            map.answered(answer, by: self.c, now: Self.time(30), draw: 0)
            #expect(map.endpoint(forSlot: 0) == self.a)
            map.answered(answer, by: self.c, now: Self.time(40), draw: 0)
            #expect(map.endpoint(forSlot: 0) == self.d)
            #expect(map.holder(ofSlot: 0) == SlotHolder(node: "d", failovers: 1))
        }
        // One node alone that cannot reach the owner says nothing about it.
        var map = try self.known()
        let lonely = try self.answer(
            self.line("a", "master,fail?", epoch: 1),
            self.line("b", "master,fail?", epoch: 2, "5461-10922"),
            self.line("c", "myself,master", epoch: 0, "0-5460 10923-16383"),
        )
        for time in 1...5 { map.answered(lonely, by: self.c, now: Self.time(Int64(time) * 10_000), draw: 0) }
        #expect(map.endpoint(forSlot: 0) == self.a)
    }

    @Test func `Masters without slots are no holders, and servers that are marked as failed are told apart`() throws {
        var map = try self.known()
        let answer = try self.answer(
            self.line("a", "myself,master", epoch: 1, "0-5460"),
            self.line("b", "master,fail", epoch: 2, "5461-10922"),
            self.line("c", "master", epoch: 3, "10923-16383"),
            self.line("d", "slave,fail?", master: "a", epoch: 1),
            self.line("e", "master", epoch: 0),
            self.line("f", "master,fail", epoch: 0),
        )
        map.answered(answer, by: self.a, now: Self.time(10), draw: 0)
        #expect(map.masters == [self.a, self.b, self.c, Self.endpoint("e")])
        #expect(map.holders == [self.a, self.b, self.c])
        #expect(map.failedServers == [self.d, Self.endpoint("f")])
    }

    // MARK: Redirections

    @Test func `A MOVED moves its slot at once, and an answer without a newer epoch does not take it back`() throws {
        var map = try self.known()
        let isNews = map.moved(slot: 7, to: self.b, by: self.a, now: Self.time(10), draw: 0)
        #expect(isNews)
        #expect(map.endpoint(forSlot: 7) == self.b)
        #expect(map.endpoint(forSlot: 8) == self.a)
        // The other node does not know of it yet.
        map.answered(try self.whole(), by: self.c, now: Self.time(20), draw: 0)
        #expect(map.endpoint(forSlot: 7) == self.b)
        // Nobody confirms it: it was wrong.
        map.answered(try self.whole(), by: self.c, now: Self.time(10) + ClusterMap.movedTrust, draw: 0)
        #expect(map.endpoint(forSlot: 7) == self.a)
    }

    @Test func `Commands that were sent together all follow one MOVED, and none follows a server that names itself`()
        throws
    {
        var map = try self.known()
        for time in 10...12 {
            let isElsewhere = map.moved(slot: 7, to: self.b, by: self.a, now: Self.time(Int64(time)), draw: 0)
            #expect(isElsewhere)
        }
        let isElsewhere = map.moved(slot: 7, to: self.b, by: self.b, now: Self.time(13), draw: 0)
        #expect(!isElsewhere)
        #expect(map.endpoint(forSlot: 7) == self.b)
    }

    @Test func `A MOVED that names an address leads to the node's own name`() throws {
        var map = ClusterMap(seeds: [self.seed], now: Self.time(0))
        let text = """
            a 10.0.0.1:6379@16379,one.example master - 0 0 1 connected 0-8191
            b 10.0.0.2:6379@16379,two.example master - 0 0 2 connected 8192-16383
            """
        map.answered(try ClusterNodes(text, from: self.seed), by: self.seed, now: Self.time(0), draw: 0)
        _ = map.moved(slot: 0, to: .host("10.0.0.2", port: 6_379), by: map.masters[0], now: Self.time(1), draw: 0)
        #expect(map.endpoint(forSlot: 0) == .host("two.example", port: 6_379))
    }

    // MARK: Moves and failovers

    @Test func `A slot that a living master gives away is a planned move, by MOVED and by answer`() throws {
        let new = try self.whole(a: "1-5460", b: "0 5461-10922", epochB: 4)
        for isTold in [true, false] {
            var map = try self.known()
            let before = try #require(map.holder(ofSlot: 0))
            if isTold {
                _ = map.moved(slot: 0, to: self.b, by: self.a, now: Self.time(10), draw: 0)
                #expect(map.holder(ofSlot: 0)?.isPlannedMove(from: before) == true)
            }
            map.answered(new, by: self.c, now: Self.time(20), draw: 0)
            #expect(map.holder(ofSlot: 0)?.isPlannedMove(from: before) == true)
            #expect(map.holder(ofSlot: 0)?.node == "b")
        }
    }

    @Test func `A replica that takes over is a failover, by MOVED and by answer`() throws {
        let new = try self.answer(
            self.line("a", "master,fail", epoch: 1),
            self.line("b", "master", epoch: 2, "5461-10922"),
            self.line("c", "myself,master", epoch: 3, "10923-16383"),
            self.line("d", "master", epoch: 4, "0-5460"),
        )
        for isTold in [true, false] {
            var map = try self.known()
            let before = try #require(map.holder(ofSlot: 0))
            // The old master came back as a replica.
            if isTold { _ = map.moved(slot: 0, to: self.d, by: self.a, now: Self.time(10), draw: 0) }
            map.answered(new, by: self.c, now: Self.time(20), draw: 0)
            #expect(map.endpoint(forSlot: 0) == self.d)
            #expect(map.holder(ofSlot: 0) == SlotHolder(node: "d", failovers: before.failovers + 1))
        }
    }

    @Test func `A planned failover counts as one: a frozen master that wakes up looks the same`() throws {
        var map = try self.known()
        map.answered(
            try self.answer(
                self.line("a", "slave", master: "d", epoch: 4),
                self.line("b", "master", epoch: 2, "5461-10922"),
                self.line("c", "myself,master", epoch: 3, "10923-16383"),
                self.line("d", "master", epoch: 4, "0-5460"),
            ),
            by: self.c,
            now: Self.time(20),
            draw: 0,
        )
        #expect(map.holder(ofSlot: 0) == SlotHolder(node: "d", failovers: 1))
    }

    @Test func `A move is a failover after all when the master that gave the slot away turns out to have failed`()
        throws
    {
        var map = try self.known()
        _ = map.moved(slot: 0, to: self.b, by: self.a, now: Self.time(10), draw: 0)
        map.answered(
            try self.answer(
                self.line("a", "master,fail", epoch: 1, "1-5460"),
                self.line("b", "master", epoch: 5, "0 5461-10922"),
                self.line("c", "myself,master", epoch: 3, "10923-16383"),
            ),
            by: self.c,
            now: Self.time(20),
            draw: 0,
        )
        #expect(map.holder(ofSlot: 0) == SlotHolder(node: "b", failovers: 1))
    }

    @Test func `A node that answers under another address keeps its slots and its failovers`() throws {
        var map = try self.known()
        var moved = try self.whole()
        moved.nodes[0].endpoint = .host("10.0.0.99", port: 6_379)
        map.answered(moved, by: self.b, now: Self.time(10), draw: 0)
        #expect(map.endpoint(forSlot: 0) == .host("10.0.0.99", port: 6_379))
        #expect(map.holder(ofSlot: 0) == SlotHolder(node: "a", failovers: 0))
    }

    // MARK: Questions

    @Test func `All is well: two nodes are asked every 15 s`() throws {
        var map = try self.known()
        #expect(map.dueAt == Self.time(0) + ClusterMap.quietPause)
        #expect(map.takeQuestions(now: Self.time(14_999), draw: 0).isEmpty)
        #expect(map.takeQuestions(now: Self.time(15_000), draw: 0).count == ClusterMap.askedTogether)
        // One question at a time, until both have answered.
        map.answered(try self.whole(), by: self.a, now: Self.time(15_010), draw: 0)
        #expect(map.takeQuestions(now: Self.time(15_500), draw: 0).isEmpty)
        map.answered(try self.whole(), by: self.b, now: Self.time(15_510), draw: 0)
        #expect(map.dueAt == Self.time(15_510) + ClusterMap.quietPause)
    }

    @Test func `While a server fails, pauses grow from 0.1 s to 2 s, and end when it is well again`() throws {
        var map = try self.known()
        var now = Self.time(5_000)
        var pauses: [Int64] = []
        for _ in 0..<8 {
            map.failed(self.b, now: now, draw: 1 - 1e-9)
            now = max(now, map.dueAt)
            let asked = map.takeQuestions(now: now, draw: 0)
            #expect(!asked.isEmpty && !asked.contains(self.b))
            map.failed(self.b, now: now, draw: 0)
            for endpoint in asked { map.answered(try self.whole(), by: endpoint, now: now, draw: 1 - 1e-9) }
            pauses.append((map.dueAt - now).nanoseconds / 1_000_000 + 1)
        }
        #expect(pauses == [200, 400, 800, 1_600, 2_000, 2_000, 2_000, 2_000])
        now = map.dueAt
        for endpoint in map.takeQuestions(now: now, draw: 0) {
            map.answered(try self.whole(), by: endpoint, now: now, draw: 0)
        }
        #expect(map.dueAt == now + ClusterMap.quietPause)
    }

    @Test func `A node that does not answer is not asked again for 2 s, unless no other is left`() throws {
        var map = try self.known()
        map.failed(nil, now: Self.time(5_000), draw: 0)
        var now = map.dueAt
        let silent = map.takeQuestions(now: now, draw: 0)
        now = now + ClusterMap.answerMax
        let others = map.takeQuestions(now: now, draw: 0)
        #expect(others.isEmpty)
        now = map.dueAt
        let next = map.takeQuestions(now: now, draw: 0)
        #expect(!next.isEmpty && Set(next).isDisjoint(with: silent))
        for endpoint in [self.a, self.b, self.c, self.d, self.seed] { map.unanswered(by: endpoint, now: now, draw: 0) }
        now = map.dueAt
        #expect(!map.takeQuestions(now: now, draw: 0).isEmpty)
    }

    @Test func `Redirections to and fro without an answer are forgotten as they are overtaken`() throws {
        var map = try self.known()
        for step in 0..<4_000 {
            let target = step.isMultiple(of: 2) ? self.b : self.a
            _ = map.moved(slot: 0, to: target, by: self.a, now: Self.time(Int64(step)), draw: 0)
        }
        #expect(map.endpoint(forSlot: 0) == self.a)
        #expect(map.endpoint(forSlot: 16_383) == self.c)
    }

    // MARK: CLUSTER NODES

    @Test func `Nodes without an address are left out, slots that are being moved are still their owner's`() throws {
        let text = """
            a :6379@16379 myself,master - 0 0 1 connected 0-5460 [93->-b] [94-<-b]
            b 10.0.0.2:6379@16379,? master - 0 0 2 connected 5461-16383
            c :0@0 master,noaddr - 0 0 0 disconnected
            e 10.0.0.5:6379@16379 handshake - 0 0 0 disconnected
            """
        let nodes = try ClusterNodes(text, from: self.seed).nodes
        #expect(nodes.map(\.id) == ["a", "b"])
        #expect(nodes[0].endpoint == .host("seed", port: 6_379))
        #expect(nodes[0].slots == [0...5_460])
        #expect(nodes[0].openSlots.map(\.slot) == [93, 94] && nodes[0].openSlots.map(\.isImported) == [false, true])
        #expect(nodes[0].isSelf && !nodes[1].isSelf && nodes[0].openSlots.allSatisfy { $0.peer == "b" })
    }

    @Test(arguments: [
        "", "a 10.0.0.1:6379 master", "a 10.0.0.1:x@1 master - 0 0 1 connected",
        "a 10.0.0.1:1@1 master - 0 0 x connected",
        "a 10.0.0.1:1@1 master - 0 0 1 connected 16384", "a 10.0.0.1:1@1 master - 0 0 1 connected 9-3",
    ])
    func `What is no list of nodes is refused`(_ text: String) {
        #expect(throws: RedisError.self) { try ClusterNodes(text, from: self.seed) }
    }
}
