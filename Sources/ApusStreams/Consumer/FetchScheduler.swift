/// Schedules the reads of one shard's streams, by what is in hand of each. Pure: a driver reads, begins entries and interrupts reads.
///
/// A stream that may hold a backlog is read by itself, without blocking, as far as its credit goes. One that is known to be empty is
/// *watched*: one blocking read waits for all watched streams together. So a full backlog keeps nobody waiting, and an idle shard costs
/// one call now and then. A stream that was emptied while something of it is in hand *lingers* first: to change what a blocking read
/// waits for, it has to be interrupted, which costs more than to look once more when an entry ends.
struct FetchScheduler {
    /// The ways in which a stream is read.
    private enum Phase {
        /// The stream is read by itself, as soon as there is credit. Can become `reading`.
        case unread
        /// The stream's own read is on its way. Can become `unread`, `lingering` or `watched`.
        case reading
        /// The stream was empty: it is read by itself when an entry ends, else soon by the blocking read. Can become `unread` or `watched`.
        case lingering
        /// The stream is empty: the blocking read waits for it. Can become `unread`.
        case watched
    }

    private struct Held {
        let name: EntryName
        var deliveries: UInt32
        var byteCount: Int
        var renewedAt: ContinuousClock.Instant
        /// True while the entry waits for something of its own: then it counts against no credit.
        var isWaiting = false
        /// True when the entry was handled, or will not be: only the call to Redis is missing.
        var isHandled = false
        /// Another entry that has come under the same id, because the server has forgotten this one. It begins when this one has ended.
        var successor: StreamEntry?
    }

    private struct State {
        // The stream's key is kept outside of the state, which stays small without it. A single field is read where the state stands, while
        // a computed property, or a parameter of a closure, would copy all of it.
        let inHandMax: Int
        let bytesInHandMax: Int
        let waitingMax: Int
        let countPerRead: Int
        var phase = Phase.unread
        /// True while the blocking read of its group waits for the stream.
        var isAwaited = false
        /// True while nothing more is read or taken over, because what the stream leads to has no room.
        var isPaused = false
        /// The entries that this consumer owns, begun or not.
        var held: [String: Held] = [:]
        /// The entries that were not begun: a take-over may bring more than there is room for.
        var queue: [StreamEntry] = []
        /// The bytes of all entries that are ours.
        var heldBytes = 0
        /// The bytes that the next entry is expected to have: those of the largest recent one.
        var bytesExpected = 1
        /// The time at which a read of the stream was last answered, or there was no room for what it could bring.
        var answeredAt: ContinuousClock.Instant

        /// The number of held entries that wait for something of their own.
        var waitingCount = 0

        /// The number of held entries that count against the credit.
        var busyCount: Int { self.held.count - min(self.waitingCount, self.waitingMax) }
        /// The number of entries that may be read: as many as fit by number and by their expected bytes, and at least one while there is room.
        var credit: Int { self.credit(streamsPerRead: 1) }

        /// Returns the number of entries that a read of so many streams may bring of this one: one answer brings those of all, so that each
        /// has its part of the bytes. While there is room it is one entry at least, and two beside other streams: of one alone nobody could tell
        /// whether the stream has more.
        func credit(streamsPerRead: Int) -> Int {
            let bytes = self.bytesInHandMax - self.heldBytes
            guard bytes > 0, !self.isPaused else { return 0 }
            let share = max(min(2, streamsPerRead), bytes / streamsPerRead / self.bytesExpected)
            return max(0, min(self.inHandMax - self.busyCount, share))
        }
        var hasRoom: Bool { self.busyCount - self.queue.count < self.inHandMax }
    }

    /// The decision about an entry that has come.
    enum Arrival: Hashable {
        /// Its handling begins.
        case begin
        /// It is this consumer's, but waits until another ends.
        case wait
        /// An entry of that id is in hand already: it came back because its lease ran out here, or its group was made again, or a server
        /// that has forgotten it has given its id to another, which waits until it ends.
        case known
    }

    /// A read of one stream by itself.
    struct OwnRead: Hashable {
        let feed: Int
        let stream: String
        let count: Int
    }

    /// A blocking read.
    struct Watch: Hashable {
        let feeds: [Int]
        let streams: [String]
        /// The maximum of entries of each stream: as many as the one with the least credit has room for in an answer that all share.
        let count: Int
    }

    /// The key of each stream, in the order of the feeds.
    private let streams: [String]
    /// The state of each stream, in the same order.
    private var states: [State]
    private let indices: [String: Int]
    /// The feeds of each blocking read; a connection carries one blocking read.
    let groups: [[Int]]
    /// The streams that the blocking read of a group waits for.
    private var watching: [Watch?]
    /// The groups whose blocking read has brought what there was, and that wait before the next one.
    private var resting: Set<Int> = []
    private(set) var isStopped = false
    /// True when answers of Redis are waited for no longer.
    private var givesUpAnswers = false

    init(
        _ feeds: [ShardConsumer.Feed],
        now: ContinuousClock.Instant,
        streamsPerReadMax: Int = StreamLimits.streamsPerReadMax,
    ) {
        self.streams = feeds.map(\.stream)
        self.states = feeds.map { feed in
            State(
                inHandMax: feed.inHandMax,
                bytesInHandMax: feed.bytesInHandMax,
                waitingMax: feed.waitingMax,
                countPerRead: feed.countPerRead,
                answeredAt: now,
            )
        }
        self.indices = Dictionary(uniqueKeysWithValues: feeds.enumerated().map { ($1.stream, $0) })
        self.groups = ShardConsumer.Feed.Watch.allCases.flatMap { watch in
            let together = feeds.indices.filter { feeds[$0].watch == watch }
            return stride(from: 0, to: together.count, by: streamsPerReadMax).map {
                Array(together[$0..<min($0 + streamsPerReadMax, together.count)])
            }
        }
        self.watching = Array(repeating: nil, count: self.groups.count)
    }

    var groupCount: Int { self.groups.count }

    /// True when nothing is in hand and nothing is being read by itself; entries that only wait for an answer of Redis do not count once
    /// that is given up.
    var isQuiet: Bool {
        self.states.allSatisfy { state in
            self.givesUpAnswers
                ? state.held.values.allSatisfy(\.isHandled) : state.held.isEmpty && state.phase != .reading
        }
    }

    // MARK: Entries

    /// - Parameter ownedAt: when it was asked for: it was nobody else's since.
    mutating func arrived(_ entry: StreamEntry, ownedAt: ContinuousClock.Instant) -> Arrival {
        guard let index = self.indices[entry.stream] else {
            preconditionFailure("an entry of a stream nobody asked for")
        }
        if var known = self.states[index].held[entry.id] {
            known.deliveries = entry.deliveries
            known.renewedAt = ownedAt
            known.successor = known.name == entry.name ? nil : entry
            self.states[index].held[entry.id] = known
            return .known
        }
        let held = Held(
            name: entry.name,
            deliveries: entry.deliveries,
            byteCount: entry.message.count,
            renewedAt: ownedAt,
        )
        self.states[index].held[entry.id] = held
        self.states[index].heldBytes += held.byteCount
        let expected = self.states[index].bytesExpected
        self.states[index].bytesExpected = max(1, held.byteCount, expected - expected / 8)
        // Counted among the held by now: begun are those that are not in the queue.
        guard self.states[index].busyCount - self.states[index].queue.count <= self.states[index].inHandMax else {
            self.states[index].queue.append(entry)
            return .wait
        }
        return .begin
    }

    /// Records that an entry is no longer in hand, and returns the next one to begin, if one waited for that.
    mutating func ended(_ entry: StreamEntry) -> StreamEntry? {
        guard let index = self.indices[entry.stream] else { return nil }
        if let held = self.states[index].held.removeValue(forKey: entry.id) {
            self.states[index].heldBytes -= held.byteCount
            if held.isWaiting { self.states[index].waitingCount -= 1 }
            if let successor = held.successor, !self.isStopped,
                self.arrived(successor, ownedAt: held.renewedAt) == .begin
            {
                return successor
            }
        }
        return self.roomMade(index)
    }

    /// Records that an entry in hand waits for something of its own, or no longer does, and returns the next one to begin, if one waited
    /// for room.
    mutating func waits(_ entry: StreamEntry, _ isWaiting: Bool) -> StreamEntry? {
        guard let index = self.indices[entry.stream], let held = self.states[index].held[entry.id],
            held.isWaiting != isWaiting
        else { return nil }
        self.states[index].held[entry.id]?.isWaiting = isWaiting
        self.states[index].waitingCount += isWaiting ? 1 : -1
        return isWaiting ? self.roomMade(index) : nil
    }

    private mutating func roomMade(_ index: Int) -> StreamEntry? {
        let (phase, isAwaited) = (self.states[index].phase, self.states[index].isAwaited)
        // Where the blocking read does not wait for it, it would have to be interrupted.
        if phase == .lingering || phase == .watched && !isAwaited { self.states[index].phase = .unread }
        guard !self.isStopped, !self.states[index].queue.isEmpty, self.states[index].hasRoom else { return nil }
        return self.states[index].queue.removeFirst()
    }

    /// Returns the last time at which an entry in hand was this consumer's for certain; nil when it is not in hand.
    func ownedAt(_ entry: StreamEntry) -> ContinuousClock.Instant? {
        self.indices[entry.stream].flatMap { self.states[$0].held[entry.id]?.renewedAt }
    }

    /// Pauses reading and taking over entries of the streams, or ends the pause; entries in hand go on.
    mutating func pause(_ streams: [String], _ isPaused: Bool) {
        for stream in streams {
            if let index = self.indices[stream] { self.states[index].isPaused = isPaused }
        }
    }

    /// Stops reading and beginning entries, and returns those that were not begun, to be handed back.
    mutating func stop() -> [StreamEntry] {
        self.isStopped = true
        let waiting = self.states.flatMap(\.queue)
        for index in self.states.indices { self.states[index].queue = [] }
        for entry in waiting { self.handled(entry) }
        return waiting
    }

    /// Records that an entry in hand was handled, or will not be: only its acknowledgement is missing.
    mutating func handled(_ entry: StreamEntry) {
        guard let index = self.indices[entry.stream] else { return }
        self.states[index].held[entry.id]?.isHandled = true
    }

    /// Records that an entry in hand, which had failed, begins again.
    mutating func tookAgain(_ entry: StreamEntry, ownedAt: ContinuousClock.Instant) {
        guard let index = self.indices[entry.stream] else { return }
        self.states[index].held[entry.id]?.isHandled = false
        self.states[index].held[entry.id]?.deliveries = entry.deliveries
        self.states[index].held[entry.id]?.renewedAt = ownedAt
    }

    /// Lets a stopped consumer end without the answers of pending reads and acknowledgements.
    mutating func giveUpAnswers() {
        precondition(self.isStopped)
        self.givesUpAnswers = true
    }

    /// The entries in hand, each with the number of its deliveries.
    var inHand: [(stream: String, id: String, deliveries: UInt32)] {
        zip(self.streams, self.states).flatMap { stream, state in
            state.held.map { (stream, $0.key, $0.value.deliveries) }
        }
    }

    /// The names of the entries in hand.
    var namesInHand: [EntryName] {
        self.states.flatMap { state in state.held.values.flatMap { [$0.name, $0.successor?.name].compactMap(\.self) } }
    }

    /// Returns the entries in hand that were not renewed for that long.
    func due(for interval: Duration, now: ContinuousClock.Instant) -> [Entries.Owned] {
        zip(self.streams, self.states).flatMap { stream, state in
            state.held.filter { now - $0.value.renewedAt >= interval }
                .map { Entries.Owned(stream: stream, id: $0.key) }
        }
    }

    /// Records that entries were renewed: their lease begins now.
    mutating func renewed(_ holdings: [Entries.Owned], now: ContinuousClock.Instant) {
        for holding in holdings {
            guard let index = self.indices[holding.stream] else { continue }
            self.states[index].held[holding.id]?.renewedAt = now
        }
    }

    /// The streams from which entries that others left may be taken over, and how many.
    ///
    /// Also where there is no credit: under a backlog there never is, and what a dead process left would wait for its end. What
    /// is taken over so begins before anything new is read; so at most half of the room is for what was delivered before, because what
    /// comes back again and again must not keep everything new away.
    var claimable: [(stream: String, count: Int)] {
        guard !self.isStopped else { return [] }
        return zip(self.streams, self.states).compactMap { stream, state in
            guard !state.isPaused else { return nil }
            let half = max(1, min(state.inHandMax, StreamLimits.claimBatchMax) / 2)
            let again = state.held.values.count { $0.deliveries > 1 && !$0.isWaiting }
            let count = max(state.credit, half - max(again, state.queue.count))
            return count > 0 ? (stream, count) : nil
        }
    }

    // MARK: Reads

    /// Returns the reads to be made now, each of one stream by itself.
    mutating func takeOwnReads() -> [OwnRead] {
        guard !self.isStopped else { return [] }
        var reads: [OwnRead] = []
        for index in self.states.indices where self.states[index].phase == .unread && self.states[index].credit > 0 {
            self.states[index].phase = .reading
            let count = min(self.states[index].countPerRead, self.states[index].credit)
            reads.append(OwnRead(feed: index, stream: self.streams[index], count: count))
        }
        return reads
    }

    /// Records that a read has ended with that many entries; nil: it failed.
    mutating func ended(_ read: OwnRead, with count: Int?) {
        precondition(self.states[read.feed].phase == .reading)
        if let count, count < read.count {
            self.states[read.feed].phase = self.states[read.feed].held.isEmpty ? .watched : .lingering
        } else {
            self.states[read.feed].phase = .unread
        }
    }

    /// Records that Redis has answered a read of those streams, with entries or without.
    mutating func recordAnswer(for streams: [String], now: ContinuousClock.Instant) {
        for stream in streams {
            if let index = self.indices[stream] { self.states[index].answeredAt = now }
        }
    }

    /// Returns the streams that have room for entries and were not read for that long. A stopped consumer has none.
    mutating func unansweredStreams(for limit: Duration, now: ContinuousClock.Instant) -> [String] {
        guard !self.isStopped else { return [] }
        var streams: [String] = []
        for index in self.states.indices {
            if self.states[index].credit == 0 { self.states[index].answeredAt = now }
            if now - self.states[index].answeredAt >= limit { streams.append(self.streams[index]) }
        }
        return streams
    }

    /// True when a stream lingers, so that ``endLingering()`` is due after a while.
    var isLingering: Bool {
        !self.isStopped && self.states.indices.contains { self.states[$0].phase == .lingering }
    }

    /// Ends lingering: those streams are watched from now on.
    mutating func endLingering() {
        for index in self.states.indices where self.states[index].phase == .lingering {
            self.states[index].phase = .watched
        }
    }

    /// Returns the streams that the blocking read of that group is to wait for; nil when there is none for now.
    mutating func watch(group: Int) -> Watch? {
        let watch = self.wanted(group)
        self.watching[group] = watch
        for index in watch?.feeds ?? [] { self.states[index].isAwaited = true }
        return watch
    }

    /// Returns true when the blocking read of that group, which has brought so many entries by stream, may rest before the next one:
    /// nothing is known to be waiting. Until it has ended its streams are not read.
    mutating func rests(group: Int, with counts: [String: Int]) -> Bool {
        guard !self.isStopped, let watch = self.watching[group], !counts.isEmpty,
            counts.values.allSatisfy({ $0 < watch.count })
        else { return false }
        self.resting.insert(group)
        return true
    }

    /// Records that the blocking read of that group has ended, with so many entries by stream. A stream of which it brought as many as it asked
    /// for may have more. After a read that asked for one entry nothing follows, and the next blocking read returns at once if there is more.
    mutating func watchEnded(group: Int, with counts: [String: Int]) {
        guard let watch = self.watching[group] else { return }
        self.watching[group] = nil
        self.resting.remove(group)
        for index in watch.feeds { self.states[index].isAwaited = false }
        guard watch.count > 1 else { return }
        for (stream, count) in counts where count >= watch.count {
            if let index = self.indices[stream] { self.states[index].phase = .unread }
        }
    }

    /// Returns true when that group's blocking read is under way and waits for too few streams.
    func mustInterrupt(group: Int) -> Bool {
        guard self.watching[group] != nil, !self.resting.contains(group) else { return false }
        return self.isStopped
            || self.groups[group].contains { !self.states[$0].isAwaited && self.isWatchable($0) }
    }

    /// Returns true when a blocking read of that group has something to wait for.
    func canWatch(group: Int) -> Bool {
        !self.isStopped && self.groups[group].contains { self.isWatchable($0) }
    }

    private func isWatchable(_ index: Int) -> Bool {
        self.states[index].phase == .watched && self.states[index].credit > 0
    }

    private func wanted(_ group: Int) -> Watch? {
        guard !self.isStopped else { return nil }
        let feeds = self.groups[group].filter { self.isWatchable($0) }
        let counts = feeds.map {
            min(self.states[$0].credit(streamsPerRead: feeds.count), self.states[$0].countPerRead)
        }
        guard let count = counts.min() else { return nil }
        return Watch(feeds: feeds, streams: feeds.map { self.streams[$0] }, count: count)
    }
}
