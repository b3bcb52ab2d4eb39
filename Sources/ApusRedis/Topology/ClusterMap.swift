package import NIOCore

/// Knows which server of a cluster holds each slot, and whom to ask next. Pure: time and random numbers are arguments.
///
/// Two answers that differ are both taken slot by slot: the one with the higher configuration epoch is newer
/// (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>, "Configuration epoch"). A `MOVED`
/// moves its slot at once. One question to two nodes is under way at a time: every 15 s while all is well, and after
/// a growing pause of 0.1 to 2 s while something is not.
///
/// An answer counts only when it is of the cluster that is known: a node that was reset, or that the others forgot,
/// knows others than they do.
package struct ClusterMap: Sendable {
    /// The pause between two questions while all is well.
    package static let quietPause: TimeAmount = .seconds(15)
    /// The least and the greatest pause between two questions while something is not.
    static let pauseMin: TimeAmount = .milliseconds(100)
    /// See `pauseMin`.
    static let pauseMax: TimeAmount = .seconds(2)
    /// The time after which a question counts as not answered.
    package static let answerMax: TimeAmount = .seconds(1)
    /// The time for which an answer without a newer epoch does not take back what a `MOVED` said.
    package static let movedTrust: TimeAmount = .seconds(2)
    /// The time for which a node that failed is not asked, unless no other is left.
    package static let failureMemory: TimeAmount = .seconds(2)
    /// The time for which answers of another cluster are ignored, if no other come: then it has replaced the one known.
    package static let replacementMin: TimeAmount = .seconds(2)
    /// The number of answers in a row without a living owner, after which a claim of an older epoch holds.
    package static let goneAnswersMin = 2
    /// The number of nodes that are asked together.
    package static let askedTogether = 2

    /// A node that holds slots, at one epoch.
    private struct Owner: Hashable {
        var node: String
        var endpoint: RedisEndpoint
        var epoch: UInt64
        /// The number of failovers of these slots so far.
        var failovers: Int
        /// Set when a `MOVED` said so, and no answer yet.
        var move: UnconfirmedMove?
    }

    /// A `MOVED` that no answer has confirmed.
    private struct UnconfirmedMove: Hashable {
        var at: NIODeadline
        /// The node that held the slot before.
        var from: String
        /// True when it did not count as a failover.
        var isPlanned: Bool
    }

    private static let unknown = UInt16.max
    /// The number of owners that may be added before those without a slot are forgotten.
    private static let ownersAddedMax = 512

    private let seeds: [RedisEndpoint]
    private var nodes: [String: ClusterNodes.Node] = [:]
    private var owners: [Owner] = []
    /// The number of owners from which those without a slot are forgotten.
    private var ownersMax = Self.ownersAddedMax
    /// The index of each slot's owner.
    private var slots = [UInt16](repeating: Self.unknown, count: HashTag.slotCount)
    private var unknownCount = HashTag.slotCount
    private var failedAt: [RedisEndpoint: NIODeadline] = [:]
    private var asked: Set<RedisEndpoint> = []
    private var askedAt = NIODeadline.uptimeNanoseconds(0)
    private var isInTrouble = false
    /// True when a node of the known cluster has answered the last question.
    private var isAnswered = false
    /// The time of the first answer since which some slots have a server and some have none; nil for all or none.
    private var incompleteSince: NIODeadline?
    /// The time since which all answers have been of another cluster; nil when the last one was not.
    private var foreignSince: NIODeadline?
    /// The number of answers in a row in which an owner of slots is missing, or has failed, by its id.
    private var goneAnswers: [String: Int] = [:]
    /// The number of questions in a row after which something was still not well.
    private var troubles = 0
    /// The servers that hold slots, and those that have given their last one away since the last answer.
    package private(set) var holders: Set<RedisEndpoint> = []
    /// The time of the next question.
    package private(set) var dueAt: NIODeadline
    /// The number of slots whose server has changed since the map was made.
    package private(set) var changes = 0

    /// Creates a map that knows nothing.
    ///
    /// - Parameter seeds: the servers that are asked first, and whenever no known one answers. At least one.
    package init(seeds: [RedisEndpoint], now: NIODeadline) {
        precondition(!seeds.isEmpty)
        self.seeds = seeds
        self.dueAt = now
    }

    // MARK: Looking up

    /// True when every slot has a server.
    package var isComplete: Bool { self.unknownCount == 0 }

    /// Returns true when some slots have had no server for so long, while nodes answered, that nobody seems to be about to get them.
    package func isIncomplete(for duration: TimeAmount, now: NIODeadline) -> Bool {
        self.incompleteSince.map { now - $0 >= duration } ?? false
    }

    /// Returns the server of a slot; nil while it is unknown.
    package func endpoint(forSlot slot: Int) -> RedisEndpoint? {
        let index = self.slots[slot]
        return index == Self.unknown ? nil : self.owners[Int(index)].endpoint
    }

    /// Returns who holds a slot; nil while that is unknown.
    package func holder(ofSlot slot: Int) -> SlotHolder? {
        let index = self.slots[slot]
        guard index != Self.unknown else { return nil }
        return SlotHolder(node: self.owners[Int(index)].node, failovers: self.owners[Int(index)].failovers)
    }

    /// The servers that hold slots or may be given some, in a fixed order.
    package var masters: [RedisEndpoint] {
        self.holdersAnd(self.nodes.values.filter { $0.isMaster && !$0.isFailed })
    }

    /// The masters and those that follow them.
    package var servers: [RedisEndpoint] { self.holdersAnd(self.nodes.values.filter { !$0.isFailed }) }

    private func holdersAnd(_ others: [ClusterNodes.Node]) -> [RedisEndpoint] {
        (self.holdingOwners.map(\.endpoint) + others.map(\.endpoint)).uniqueAndSorted
    }

    /// The servers that are marked as failed and hold no slot, in a fixed order.
    package var failedServers: [RedisEndpoint] {
        let known = self.servers
        return self.nodes.values.filter { $0.isFailed && !known.contains($0.endpoint) }.map(\.endpoint).uniqueAndSorted
    }

    private var holdingOwners: [Owner] {
        var isHolding = [Bool](repeating: false, count: self.owners.count)
        for index in self.slots where index != Self.unknown { isHolding[Int(index)] = true }
        return zip(self.owners, isHolding).filter(\.1).map(\.0)
    }

    // MARK: Events

    /// Takes a `MOVED` of the server `source`. Returns true when the slot is known to be on another server than that.
    package mutating func moved(
        slot: Int,
        to target: RedisEndpoint,
        by source: RedisEndpoint,
        now: NIODeadline,
        draw: Double,
    ) -> Bool {
        self.note(now, draw)
        let node = self.nodes.values.first { $0.address == target || $0.endpoint == target }
        let endpoint = node?.endpoint ?? target
        let known = self.slots[slot] == Self.unknown ? nil : self.owners[Int(self.slots[slot])]
        // Commands that were sent together are answered alike.
        guard known?.endpoint != endpoint else { return endpoint != source }
        // A master that gives a slot to another one gives it whole. One that became a replica says MOVED too.
        let isPlanned = node?.isMaster == true && known?.endpoint == source
        let move = UnconfirmedMove(
            at: now,
            from: known?.move?.from ?? known?.node ?? "",
            isPlanned: isPlanned && known?.move?.isPlanned != false,
        )
        let owner = Owner(
            node: node?.id ?? "\(target)",
            endpoint: endpoint,
            epoch: known?.epoch ?? 0,
            failovers: (known?.failovers ?? 0) + (known == nil || isPlanned ? 0 : 1),
            move: known == nil ? nil : move,
        )
        self.set(slot, self.index(of: owner))
        return true
    }

    /// Takes a failure of a server, after which its slots may be elsewhere; nil for a slot without a server.
    package mutating func failed(_ endpoint: RedisEndpoint?, now: NIODeadline, draw: Double) {
        if let endpoint { self.failedAt[endpoint] = now }
        self.note(now, draw)
    }

    /// Takes a node's answer.
    package mutating func answered(_ answer: ClusterNodes, by source: RedisEndpoint, now: NIODeadline, draw: Double) {
        self.failedAt[source] = nil
        if self.isOurs(answer) {
            self.isAnswered = true
            self.foreignSince = nil
            self.merge(answer, now)
        } else {
            let since = self.foreignSince ?? now
            self.foreignSince = since
            if now - since >= Self.replacementMin, answer.isWhole {
                self.isAnswered = true
                self.foreignSince = nil
                for owner in self.owners { self.goneAnswers[owner.node] = Self.goneAnswersMin }
                self.merge(answer, now)
            }
        }
        self.questionEnded(source, now, draw)
    }

    /// Takes that a node did not answer a question.
    package mutating func unanswered(by source: RedisEndpoint, now: NIODeadline, draw: Double) {
        self.failedAt[source] = now
        self.isInTrouble = true
        self.questionEnded(source, now, draw)
    }

    /// Returns the servers to ask `CLUSTER NODES` now; none when no question is due.
    package mutating func takeQuestions(now: NIODeadline, draw: Double) -> [RedisEndpoint] {
        if !self.asked.isEmpty, now - self.askedAt >= Self.answerMax {
            for endpoint in self.asked { self.failedAt[endpoint] = now }
            self.isInTrouble = true
            self.asked = []
            self.scheduleNext(now, draw)
        }
        guard self.asked.isEmpty, now >= self.dueAt else { return [] }
        self.failedAt = self.failedAt.filter { now - $0.value < Self.failureMemory }
        let all = (self.nodes.values.filter { !$0.isFailed }.map(\.endpoint) + self.seeds).uniqueAndSorted
        let living = all.filter { self.failedAt[$0] == nil }
        let candidates = living.isEmpty ? all : living
        let first = Int(draw * Double(candidates.count))
        let chosen = (0..<min(Self.askedTogether, candidates.count)).map { candidates[(first + $0) % candidates.count] }
        self.asked = Set(chosen)
        self.askedAt = now
        self.isInTrouble = false
        self.isAnswered = false
        self.dueAt = now + Self.answerMax
        return chosen
    }

    // MARK: Questions

    /// Records that something may have changed: the next question is due soon.
    private mutating func note(_ now: NIODeadline, _ draw: Double) {
        self.isInTrouble = true
        guard self.asked.isEmpty else { return }
        self.dueAt = min(self.dueAt, max(now, self.askedAt + self.pause(draw)))
    }

    private mutating func questionEnded(_ source: RedisEndpoint, _ now: NIODeadline, _ draw: Double) {
        let isPartial = (1..<HashTag.slotCount).contains(self.unknownCount)
        self.incompleteSince = isPartial ? self.incompleteSince ?? now : nil
        guard self.asked.remove(source) != nil, self.asked.isEmpty else { return }
        self.scheduleNext(now, draw)
    }

    private mutating func scheduleNext(_ now: NIODeadline, _ draw: Double) {
        let isWell = self.isComplete && self.isAnswered && !self.isInTrouble
        self.troubles = isWell ? 0 : self.troubles + 1
        self.dueAt = now + (isWell ? Self.quietPause : self.pause(draw))
    }

    private func pause(_ draw: Double) -> TimeAmount {
        let whole = min(Self.pauseMax.nanoseconds, Self.pauseMin.nanoseconds << Int64(min(self.troubles, 10)))
        return .nanoseconds(Int64(Double(whole) * (0.5 + draw / 2)))
    }

    // MARK: Answers

    /// Returns true for an answer of the known cluster: of a node that the last answer named, and which itself names at least half of the
    /// nodes that hold slots. While no slot is known every answer is.
    private func isOurs(_ answer: ClusterNodes) -> Bool {
        guard self.unknownCount < HashTag.slotCount else { return true }
        if let own = answer.nodes.first(where: \.isSelf), self.nodes[own.id] == nil { return false }
        let named = Set(answer.nodes.map(\.id))
        // The id of a node that only a MOVED has named is not known.
        let holders = Set(self.holdingOwners.map(\.node)).filter { self.nodes[$0] != nil }
        return holders.count { named.contains($0) } * 2 >= holders.count
    }

    private mutating func merge(_ answer: ClusterNodes, _ now: NIODeadline) {
        let before = self.nodes
        let named = Dictionary(answer.nodes.map { ($0.id, $0) }) { $1 }
        var gone: [String: Int] = [:]
        for owner in self.owners where named[owner.node]?.isFailedByMajority ?? true {
            gone[owner.node] = (self.goneAnswers[owner.node] ?? 0) + 1
        }
        self.goneAnswers = gone
        for node in answer.nodes where node.isMaster {
            // Slots of one owner come together, and what the answer says of one of them it says of all.
            var last: (known: UInt16, next: Int?)?
            for slot in node.slots.joined() {
                if last?.known != self.slots[slot] {
                    let next = self.owner(after: self.slots[slot], node, named, before, now).map { self.index(of: $0) }
                    last = (self.slots[slot], next)
                }
                if let next = last?.next { self.set(slot, next) }
            }
        }
        self.nodes = named
        self.collect()
    }

    /// Returns the owner of slots by a node that says they are its own; nil when that changes nothing.
    ///
    /// - Parameter index: that of their owner so far.
    private func owner(
        after index: UInt16,
        _ node: ClusterNodes.Node,
        _ named: [String: ClusterNodes.Node],
        _ before: [String: ClusterNodes.Node],
        _ now: NIODeadline,
    ) -> Owner? {
        var owner = Owner(node: node.id, endpoint: node.endpoint, epoch: node.epoch, failovers: 0)
        guard index != Self.unknown else { return owner }
        let known = self.owners[Int(index)]
        owner.failovers = known.failovers
        if let move = known.move, known.node == node.id || known.endpoint == node.endpoint {
            // The one that gave the slot away may turn out to have failed.
            if move.isPlanned, !Self.isLivingMaster(move.from, in: named) { owner.failovers += 1 }
        } else if known.node == node.id {
            guard node.epoch >= known.epoch else { return nil }
        } else {
            let isTrusted = known.move.map { now - $0.at < Self.movedTrust } ?? true
            let isGone = known.move == nil && self.goneAnswers[known.node] ?? 0 >= Self.goneAnswersMin
            guard node.epoch > known.epoch || !isTrusted || (isGone && !node.isFailed) else { return nil }
            let isPlanned = Self.isLivingMaster(known.node, in: named) && before[node.id]?.master != known.node
            if !isPlanned { owner.failovers += 1 }
        }
        return owner == known ? nil : owner
    }

    private static func isLivingMaster(_ id: String, in nodes: [String: ClusterNodes.Node]) -> Bool {
        guard let node = nodes[id] else { return false }
        return node.isMaster && !node.isFailed
    }

    private mutating func set(_ slot: Int, _ index: Int) {
        let old = self.slots[slot]
        if old == Self.unknown {
            self.unknownCount -= 1
        } else if self.owners[Int(old)].endpoint != self.owners[index].endpoint {
            self.changes += 1
        }
        self.slots[slot] = UInt16(index)
    }

    private mutating func index(of owner: Owner) -> Int {
        if let known = self.owners.lastIndex(of: owner) { return known }
        if self.owners.count >= self.ownersMax { self.collect() }
        self.owners.append(owner)
        self.holders.insert(owner.endpoint)
        return self.owners.count - 1
    }

    /// Forgets owners that have no slot any more.
    private mutating func collect() {
        var places = [UInt16](repeating: Self.unknown, count: self.owners.count)
        var kept: [Owner] = []
        for slot in self.slots.indices where self.slots[slot] != Self.unknown {
            let old = Int(self.slots[slot])
            if places[old] == Self.unknown {
                places[old] = UInt16(kept.count)
                kept.append(self.owners[old])
            }
            self.slots[slot] = places[old]
        }
        self.owners = kept
        self.holders = Set(kept.map(\.endpoint))
        self.ownersMax = kept.count + Self.ownersAddedMax
    }
}

extension Sequence<RedisEndpoint> {
    fileprivate var uniqueAndSorted: [RedisEndpoint] { Set(self).sorted { "\($0)" < "\($1)" } }
}
