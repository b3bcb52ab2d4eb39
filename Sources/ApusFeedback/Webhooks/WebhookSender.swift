internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusService
internal import ApusStreams
internal import Logging

/// Posts the receipts of one shard to the webhook, in batches and in their order, at least once each.
///
/// The queue is the receipts stream itself, read by a group of its own: it is bounded by how long receipts are kept, and only the batch in
/// hand is in memory. When a process dies, another takes over its batch after the lease. A batch that the receiver does not accept is tried
/// again with exponential backoff and full jitter; after the last try each of its receipts becomes a dead letter (`apus dead list`), and
/// the next batch has its turn. Tries are many while the receiver is away or takes nothing from us. When it refuses what is in a batch, the
/// receipts are posted one by one, and tries of the one that it refuses are few, fewer still where it has taken another of them. After some
/// that were given up one after the other it may have broken meanwhile, and what it took before counts no more. A receiver that fails (500)
/// may be broken, or fail at one receipt: after some tries of several together they are posted one by one, and one at which it fails while it
/// takes others, of whatever shard, is given up like one that it refuses, only later. It takes others when it has taken one since the last
/// try, or has taken one before and fails at no other shard's.
struct WebhookSender: Sendable {
    /// Returns the time that an owner may be silent: longer than a request may take, and longer than a part of a wait.
    static func lease(timeout: Duration) -> Duration { max(.seconds(3), timeout * 3) }

    /// The time between two reads of an empty stream; receipts that come meanwhile are posted together.
    static let pause = Duration.seconds(1)
    /// The maximum of bytes of a reason, in a dead letter.
    static let problemBytesMax = 512
    /// The maximum of bytes of one request's receipts in packed form; as JSON they are some eight times as large. A larger receipt goes
    /// alone.
    static let packedBytesMax = 128 * 1_024
    /// The maximum of bytes of a batch in packed form, but for the last read of it: every shard has one in memory.
    static let inHandBytesMax = 4 * 1_024 * 1_024
    /// The statuses by which a receiver refuses what is in a request: it is malformed (400, 422), too large (413), or contradicts what the
    /// receiver knows (409). All others but 2xx concern every receipt, such as a wrong secret or a route that is not there yet.
    static let refusals: Set<Int> = [400, 409, 413, 422]
    /// The number of tries of a receipt that the receiver refuses, because it would refuse it later too. While it has taken nothing of the
    /// batch, it may be broken.
    static let refusalsMax = 10
    /// The same where the receiver has taken another receipt of the batch, so that the others do not wait for long.
    static let refusalsOfOneMax = 3
    /// The number of receipts given up one after the other after which the receiver may be broken, although it has taken another one.
    static let givenUpInARowMax = 3
    /// The status of a receiver that fails, perhaps at one receipt of a request.
    static let failure = 500
    /// The number of tries after which several receipts at which the receiver fails are posted one by one: about a minute.
    static let failuresTogetherMax = 8
    /// The number of tries of a receipt at which the receiver fails although it takes others meanwhile: some half an hour.
    static let failuresOfOneMax = 20
    /// One in this number of tries counts while the receiver takes nothing, if it has taken something since the trouble began.
    static let standingTries = UInt32(8)

    let keys: StreamKeys
    let shard: Int
    let streams: SendStreams
    let consumer: StreamConsumer
    let client: WebhookClient
    let settings: WebhookSettings
    let retry: RetryPolicy
    let lease: Duration
    let progress: WebhookProgress
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// Returns the policy for that number of tries: from one second to five minutes.
    static func retry(attemptsMax: Int) -> RetryPolicy {
        RetryPolicy(baseMilliseconds: 1_000, capMilliseconds: 300_000, attemptsMax: UInt32(attemptsMax))
    }

    /// Works until it is cancelled; another process posts what is in hand then.
    func run() async {
        await self.sweep()
        while !Task.isCancelled {
            do {
                if try await self.step() { continue }
            } catch {
                guard !Task.isCancelled else { break }
                self.logger.warning(
                    "receipts could not be posted and will be posted again",
                    metadata: ["error": "\(error)"]
                )
            }
            try? await Task.sleep(for: Self.pause)
        }
        // This runs uncancelled, because the group is to be left clean.
        await Task { await self.retire(self.consumer) }.value
    }

    private func retire(_ consumer: StreamConsumer) async {
        _ = try? await self.streams.entries.remove(consumer, from: [self.keys.receipts], tag: self.keys.tag)
    }

    /// Removes consumers from the group that have died and own nothing.
    private func sweep() async {
        let silent = try? await self.streams.entries.silentConsumers(
            of: self.keys.receipts,
            group: self.consumer.group,
            idleMilliseconds: Int64(StreamLimits.consumerSilenceMax / .milliseconds(1)),
            tag: self.keys.tag,
        )
        for consumer in silent ?? [] { await self.retire(consumer) }
    }

    /// A batch in hand.
    private struct Batch {
        /// The receipts that are neither accepted nor given up.
        var left: ArraySlice<StreamEntry>
        /// The time at which the leases of these were asked for.
        var renewedAt: ContinuousClock.Instant
        /// The number of the first ones that are posted one by one, because they were refused together.
        var aloneCount = 0
        /// The number of requests that the receiver had accepted before the present trouble: once it accepts others, it is not broken.
        var takenBefore = 0
        /// True once the receiver has taken some of the batch, until too many were given up since.
        private(set) var takesOthers = false
        private var givenUpInARow = 0

        init(_ entries: [StreamEntry], renewedAt: ContinuousClock.Instant) {
            self.left = entries[...]
            self.renewedAt = renewedAt
        }

        mutating func taken() {
            self.takesOthers = true
            self.givenUpInARow = 0
        }

        mutating func givenUp() {
            self.givenUpInARow += 1
            if self.givenUpInARow >= WebhookSender.givenUpInARowMax { self.takesOthers = false }
        }
    }

    /// Posts one batch until it is accepted or given up.
    ///
    /// - Returns: true when there was one.
    func step() async throws -> Bool {
        let askedAt = ContinuousClock.now
        let entries = try await self.take()
        guard !entries.isEmpty else { return false }
        var batch = Batch(entries, renewedAt: askedAt)
        do {
            while !batch.left.isEmpty {
                guard try await self.postNext(&batch) else {
                    // Receipts that are still ours come next, and so keep their order.
                    await self.giveBack(batch.left)
                    break
                }
            }
        } catch {
            await self.giveBack(batch.left)
            throw error
        }
        return true
    }

    /// Posts the next part of a batch until it is accepted, given up, or refused: then its receipts are posted one by one.
    ///
    /// - Returns: false when some of the batch are another consumer's, or gone.
    private func postNext(_ batch: inout Batch) async throws -> Bool {
        // The parts before this one may have taken long.
        if ContinuousClock.now - batch.renewedAt >= self.lease / 4, try await !self.renew(&batch) { return false }
        let part = batch.left.prefix(
            batch.aloneCount > 0 ? 1 : Self.countInOneRequest(batch.left.map(\.message.count))
        )
        switch try await self.post(part, of: &batch) {
        case .taken: batch.taken()
        case .givenUp:
            batch.givenUp()
            batch.takenBefore = self.progress.takenCount
        case .unreadable: break
        case .lost: return false
        case .refused:
            batch.aloneCount = part.count
            batch.takenBefore = self.progress.takenCount
            return true
        }
        let ids = part.map { RedisArgument.text($0.id) }
        let acknowledge = RedisCommand("XACK", [.text(self.keys.receipts), .text(self.consumer.group)] + ids)
        _ = try await self.streams.client.send(acknowledge, on: self.keys.tag, options: .idempotent)
        batch.left = batch.left.dropFirst(part.count)
        batch.aloneCount = max(0, batch.aloneCount - part.count)
        return true
    }

    /// Returns how many receipts go together, by their sizes: at least one.
    static func countInOneRequest(_ sizes: [Int]) -> Int {
        var (count, bytes) = (0, 0)
        for size in sizes {
            bytes += size
            guard count == 0 || bytes <= Self.packedBytesMax else { break }
            count += 1
        }
        return count
    }

    /// Returns entries that a dead consumer left, else new ones.
    private func take() async throws -> [StreamEntry] {
        let reader = StreamReader(client: self.streams.client, tag: self.keys.tag, consumer: self.consumer)
        // As many as it had in hand: the id of a batch names its first receipt and their number, and tells the receiver of a repeat.
        var left: [StreamEntry] = []
        var request = Entries.ClaimRequest(self.keys.receipts)
        repeat {
            request.count = self.room(beside: left)
            let claims = try await self.streams.entries.claim(
                [request],
                by: self.consumer,
                tag: self.keys.tag,
                leaseMilliseconds: Int64(self.lease / .milliseconds(1)),
            )
            guard let claim = claims.first, let cursor = claim.cursor else {
                try await reader.ensure([self.keys.receipts])
                break
            }
            self.tellExpired(claim.vanished.count)
            // Nothing is taken over for a while after a standstill.
            guard !claim.entries.isEmpty || cursor != request.cursor else { break }
            left += claim.entries
            request.cursor = cursor
        } while request.cursor != "0-0" && self.room(beside: left) > 0
        if !left.isEmpty { return left }
        let entries = self.streams.entries
        self.tellExpired(try await entries.removedUnread(from: self.keys.receipts, of: self.consumer.group))
        // Several small reads: one reply with all of a large batch would end the connection that others share.
        while case let count = self.room(beside: left), count > 0 {
            do {
                let next = try await reader.read(self.keys.receipts, count: count)
                left += next
                guard next.count == count else { break }
            } catch {
                // The receipts that were read are posted first.
                guard !left.isEmpty else { throw error }
                break
            }
        }
        return left
    }

    /// Returns how many receipts one read may add to those in hand; none when there are as many, or as large ones, as a batch may have.
    private func room(beside entries: [StreamEntry]) -> Int {
        guard entries.reduce(0, { $0 + $1.message.count }) < Self.inHandBytesMax else { return 0 }
        return min(StreamLimits.claimBatchMax, self.settings.batch - entries.count)
    }

    /// Tells of receipts that were removed before the receiver took them, because they were too old.
    private func tellExpired(_ count: Int) {
        guard count > 0 else { return }
        self.shared.add(Int64(count), to: self.metrics.webhookReceipts[.expired])
        self.logger.error(
            "receipts were removed before the webhook took them: they are kept for three days",
            metadata: ["count": "\(count)", "shard": "\(self.keys.tag)"]
        )
    }

    /// Gives entries back, also when this task is cancelled.
    private func giveBack(_ entries: ArraySlice<StreamEntry>) async {
        await Task {
            try? await self.streams.entries.handBack(
                stream: self.keys.receipts,
                entries: entries.map(\.id),
                by: self.consumer,
                tag: self.keys.tag,
            )
        }.value
    }

    /// The result of posting a part of a batch.
    private enum PostResult {
        /// The receiver has taken its receipts.
        case taken
        /// Its receipts were given up.
        case givenUp
        /// None of its receipts can be read.
        case unreadable
        /// Some of the batch are another consumer's, or gone.
        case lost
        /// The receiver refuses one of them, or fails at it, or at all together: each is to be posted by itself.
        case refused
    }

    /// Posts the first receipts of a batch until they are accepted, given up, or refused together; the others wait, and their leases are
    /// renewed.
    private func post(_ part: ArraySlice<StreamEntry>, of batch: inout Batch) async throws -> PostResult {
        let receipts = part.compactMap { entry in
            (try? SendReceipt.decode(entry.message)).map { (id: entry.id, receipt: $0) }
        }
        // A later version wrote it.
        if receipts.count < part.count { self.logger.warning("unreadable receipts are skipped") }
        guard !receipts.isEmpty else { return .unreadable }
        let refusalsMax = batch.takesOthers ? Self.refusalsOfOneMax : Self.refusalsMax
        if batch.aloneCount == 0 { batch.takenBefore = self.progress.takenCount }
        defer { self.progress.setFailing(since: nil, shard: self.shard) }
        var (attempt, refusals, failures, takenLast) = (UInt32(0), 0, 0, self.progress.takenCount)
        while true {
            attempt += 1
            guard let problem = await self.attempt(receipts) else {
                self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.delivered])
                self.progress.recordTaken()
                return .taken
            }
            try Task.checkCancellation()
            if attempt == 1 { self.progress.setFailing(since: self.clock.now(), shard: self.shard) }
            if problem.isRefusal { refusals += 1 }
            // Of one receipt they count only while the receiver takes others: what it took once tells nothing while others wait, too.
            let taken = self.progress.takenCount
            let takesOthers = taken > takenLast || !self.progress.isFailing(besides: self.shard)
            // Each shard may stand at a receipt of its own at which it fails, so that nothing else is tried: then some failures count.
            let mayStand = attempt.isMultiple(of: Self.standingTries)
            if problem.isFailure, part.count > 1 || taken > batch.takenBefore && (takesOthers || mayStand) {
                failures += 1
            }
            takenLast = taken
            if part.count > 1, refusals > 0 || failures >= Self.failuresTogetherMax {
                self.tellRefused(receipts.count, problem)
                return .refused
            }
            let decision = self.retry.decide(
                attempt: attempt,
                retryAfterMilliseconds: nil,
                now: self.clock.now(),
                expiresAt: nil,
                draw: .random(in: 0..<1),
            )
            guard refusals < refusalsMax, failures < Self.failuresOfOneMax, case .retry(let next) = decision else {
                try await self.writeDeadLetters(part, problem.text, attempt)
                return .givenUp
            }
            // The first try of a batch, then ever fewer of them: a receiver may be away for long.
            if attempt.nonzeroBitCount == 1 {
                self.logger.warning(
                    "the webhook does not take receipts, they are posted again",
                    metadata: ["problem": "\(problem.text)", "attempt": "\(attempt)", "shard": "\(self.keys.tag)"]
                )
            }
            self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.retried])
            guard try await self.wait(until: next, &batch) else { return .lost }
        }
    }

    /// Describes why the receiver did not accept a batch.
    private struct Problem {
        var text: String
        /// True when the receiver refused what is in it, and would again.
        var isRefusal = false
        /// True when the receiver failed, perhaps at one of the receipts.
        var isFailure = false
    }

    /// Tells of receipts that were refused together and are posted one by one.
    private func tellRefused(_ count: Int, _ problem: Problem) {
        self.shared.add(Int64(count), to: self.metrics.webhookReceipts[.retried])
        self.logger.warning(
            "the webhook refuses receipts, they are posted one by one",
            metadata: ["problem": "\(problem.text)", "count": "\(count)", "shard": "\(self.keys.tag)"]
        )
    }

    /// Posts receipts; returns nil when the receiver accepted them.
    private func attempt(_ receipts: [(id: String, receipt: SendReceipt)]) async -> Problem? {
        guard let secrets = self.settings.secrets else { return Problem(text: "the secret cannot be read") }
        let request = WebhookRequest(receipts, shard: self.shard, secrets: secrets, now: self.clock.now())
        do {
            let status = try await self.client.post(request)
            guard !(200..<300).contains(status) else { return nil }
            return Problem(
                text: "the receiver answered \(status)",
                isRefusal: Self.refusals.contains(status),
                isFailure: status == Self.failure,
            )
        } catch {
            return Problem(text: SystemErrorText.words(of: error))
        }
    }

    /// Renews the leases of what is left of a batch.
    ///
    /// - Returns: false when some of it are another consumer's, or gone.
    private func renew(_ batch: inout Batch) async throws -> Bool {
        let askedAt = ContinuousClock.now
        let holdings = batch.left.map { Entries.Owned(stream: $0.stream, id: $0.id) }
        let owned = try await self.streams.entries.renew(holdings, by: self.consumer, tag: self.keys.tag)
        guard owned < holdings.count else {
            batch.renewedAt = askedAt
            return true
        }
        let existing = try await self.streams.entries.existing(holdings, tag: self.keys.tag)
        self.tellExpired(holdings.count - existing)
        return false
    }

    /// Waits for the next try, and renews the leases meanwhile.
    ///
    /// - Returns: false when some of the batch are another consumer's, or gone.
    private func wait(until next: UnixMilliseconds, _ batch: inout Batch) async throws -> Bool {
        // A clock that is set back makes no wait longer.
        let end = ContinuousClock.now + .milliseconds(next.milliseconds(since: self.clock.now()))
        while true {
            guard try await self.renew(&batch) else { return false }
            let left = end - .now
            guard left > .zero else { return true }
            // The wait has parts, so that the lease is renewed in time.
            try await Task.sleep(for: min(left, self.lease / 4))
        }
    }

    private func writeDeadLetters(
        _ entries: ArraySlice<StreamEntry>,
        _ problem: String,
        _ attempts: UInt32
    ) async throws {
        for entry in entries {
            let detail = "the webhook did not take it in \(attempts) tries: \(problem)"
            var letter = DeadLetter(
                stream: entry.stream,
                entry: entry.id,
                cause: .poison,
                problem: ApusMessages.Problem(code: "webhook", detail: detail.clipped(toBytes: Self.problemBytesMax)),
                payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
                at: self.clock.now(),
            )
            letter.deliveries = attempts
            letter.service = "feedback"
            if let receipt = try? SendReceipt.decode(entry.message) {
                (letter.app, letter.send) = (receipt.app, receipt.send)
            }
            try await self.streams.deadLetters.keep(letter, tag: self.keys.tag)
        }
        self.shared.add(Int64(entries.count), to: self.metrics.webhookReceipts[.dead])
        self.logger.error("receipts were given up", metadata: ["count": "\(entries.count)", "problem": "\(problem)"])
    }
}
