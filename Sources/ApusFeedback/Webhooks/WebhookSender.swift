internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Posts the receipts of one shard to the webhook, in batches and in their order, at least once each.
///
/// The queue is the receipts stream itself, read by a group of its own: bounded by how long receipts are kept, and nothing is
/// held in memory but the batch in hand. What is in hand when a process dies is taken over by another when its lease is over. A batch that the
/// receiver does not take is tried again, exponentially later with full jitter; after the last try each of its receipts becomes a
/// dead letter (`apus dead list`), and the next batch has its turn. Tries are many where the receiver is away, and few where it refuses.
struct WebhookSender: Sendable {
    /// How long an owner may be silent: longer than a request may take, and longer than a part of a wait.
    static func lease(timeout: Duration) -> Duration { max(.seconds(3), timeout * 3) }

    /// How long it rests when there is nothing to post: what comes meanwhile goes together.
    static let pause = Duration.seconds(1)
    /// Why a batch is posted again or given up, in a dead letter: bytes at most.
    static let problemBytesMax = 512
    /// Bytes of one request's receipts as they are packed; as JSON they are some eight times that. A larger one goes alone.
    static let packedBytesMax = 128 * 1_024
    /// Tries of a batch that the receiver refuses (4xx, but not 408, 425 and 429): it would not take it tomorrow either.
    static let refusalsMax = 10

    let keys: StreamKeys
    let shard: Int
    let streams: SendStreams
    let consumer: StreamConsumer
    let client: WebhookClient
    let settings: WebhookSettings
    let retry: RetryPolicy
    let lease: Duration
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// The policy of so many tries: from one second to five minutes.
    static func retry(attemptsMax: Int) -> RetryPolicy {
        RetryPolicy(baseMilliseconds: 1_000, capMilliseconds: 300_000, attemptsMax: UInt32(attemptsMax))
    }

    /// Works until it is cancelled; what is in hand then is posted again by whoever comes next.
    func run() async {
        await self.sweep()
        while !Task.isCancelled {
            do {
                if try await self.step() { continue }
            } catch {
                guard !Task.isCancelled else { break }
                self.logger.warning("receipts not posted, will repeat", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: Self.pause)
        }
        // Not cancelled itself: the group is to be left clean.
        await Task { await self.retire(self.consumer) }.value
    }

    private func retire(_ consumer: StreamConsumer) async {
        _ = try? await self.streams.entries.remove(consumer, from: [self.keys.receipts], tag: self.keys.tag)
    }

    /// Takes those off the group who died and left nothing.
    private func sweep() async {
        let silent = try? await self.streams.entries.silentConsumers(
            of: self.keys.receipts,
            group: self.consumer.group,
            idleMilliseconds: Int64(StreamLimits.consumerSilenceMax / .milliseconds(1)),
            tag: self.keys.tag,
        )
        for consumer in silent ?? [] { await self.retire(consumer) }
    }

    /// Posts one batch to its end.
    ///
    /// - Returns: whether there was one.
    func step() async throws -> Bool {
        let entries = try await self.take()
        guard !entries.isEmpty else { return false }
        var left = entries[...]
        do {
            while !left.isEmpty {
                let part = left.prefix(Self.countInOneRequest(left.map(\.message.count)))
                guard try await self.post(part, of: left) else { return true }
                let ids = part.map { RedisArgument.text($0.id) }
                let acknowledge = RedisCommand("XACK", [.text(self.keys.receipts), .text(self.consumer.group)] + ids)
                _ = try await self.streams.client.send(acknowledge, on: self.keys.tag, options: .idempotent)
                left = left.dropFirst(part.count)
            }
        } catch {
            await Task { try? await self.giveBack(Array(left)) }.value
            throw error
        }
        return true
    }

    /// How many go together, by their sizes: at least one.
    static func countInOneRequest(_ sizes: [Int]) -> Int {
        var (count, bytes) = (0, 0)
        for size in sizes {
            bytes += size
            guard count == 0 || bytes <= Self.packedBytesMax else { break }
            count += 1
        }
        return count
    }

    /// What somebody left, else what is new.
    private func take() async throws -> [StreamEntry] {
        let reader = StreamReader(client: self.streams.client, tag: self.keys.tag, consumer: self.consumer)
        let claims = try await self.streams.entries.claim(
            [Entries.ClaimRequest(self.keys.receipts)],
            by: self.consumer,
            tag: self.keys.tag,
            leaseMilliseconds: Int64(self.lease / .milliseconds(1)),
        )
        if claims.first?.cursor == nil { try await reader.ensure([self.keys.receipts]) }
        if let left = claims.first?.entries, !left.isEmpty { return left }
        return try await reader.read(self.keys.receipts, count: self.settings.batch)
    }

    private func giveBack(_ entries: [StreamEntry]) async throws {
        try await self.streams.entries.handBack(
            stream: self.keys.receipts,
            entries: entries.map(\.id),
            by: self.consumer,
            tag: self.keys.tag,
        )
    }

    /// Posts the first of what is in hand to their end; the others wait, and are kept.
    ///
    /// - Returns: false: another owns them by now.
    private func post(_ part: ArraySlice<StreamEntry>, of held: ArraySlice<StreamEntry>) async throws -> Bool {
        let receipts = part.compactMap { entry in
            (try? SendReceipt.decode(entry.message)).map { (id: entry.id, receipt: $0) }
        }
        // Of a later version.
        if receipts.count < part.count { self.logger.warning("receipts that cannot be read are passed over") }
        guard !receipts.isEmpty else { return true }
        var (attempt, refusals) = (UInt32(0), 0)
        while true {
            attempt += 1
            guard let problem = await self.attempt(receipts) else {
                self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.delivered])
                return true
            }
            try Task.checkCancellation()
            if problem.isRefusal { refusals += 1 }
            let decision = self.retry.decide(
                attempt: attempt,
                retryAfterMilliseconds: nil,
                now: self.clock.now(),
                expiresAt: nil,
                draw: .random(in: 0..<1),
            )
            guard refusals < Self.refusalsMax, case .retry(let next) = decision else {
                try await self.bury(part, problem.text, attempt)
                return true
            }
            self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.retried])
            guard try await self.wait(until: next, held) else { return false }
        }
    }

    /// Why the receiver did not take them.
    private struct Problem {
        var text: String
        /// Whether it said so, and would again.
        var isRefusal = false
    }

    /// Nil: the receiver took them.
    private func attempt(_ receipts: [(id: String, receipt: SendReceipt)]) async -> Problem? {
        guard let secret = self.settings.secret else { return Problem(text: "the secret cannot be read") }
        let request = WebhookRequest(receipts, shard: self.shard, secret: secret, now: self.clock.now())
        do {
            let status = try await self.client.post(request)
            guard !(200..<300).contains(status) else { return nil }
            let isRefusal = (400..<500).contains(status) && ![408, 425, 429].contains(status)
            return Problem(text: "the receiver answered \(status)", isRefusal: isRefusal)
        } catch {
            return Problem(text: "\(error)")
        }
    }

    /// - Returns: false: another owns one of them by now.
    private func wait(until next: UnixMilliseconds, _ entries: ArraySlice<StreamEntry>) async throws -> Bool {
        let holdings = entries.map { Entries.Owned(stream: $0.stream, id: $0.id) }
        while true {
            guard try await self.streams.entries.renew(holdings, by: self.consumer, tag: self.keys.tag) == entries.count
            else { return false }
            let left = next.milliseconds(since: self.clock.now())
            guard left > 0 else { return true }
            // In parts, so that the lease is renewed in time.
            try await Task.sleep(for: min(.milliseconds(left), self.lease / 4))
        }
    }

    private func bury(_ entries: ArraySlice<StreamEntry>, _ problem: String, _ attempts: UInt32) async throws {
        for entry in entries {
            let detail = "the webhook did not take it in \(attempts) tries: \(problem)"
            var letter = DeadLetter(
                stream: entry.stream,
                entry: entry.id,
                cause: .poison,
                problem: ApusMessages.Problem(code: "webhook", detail: detail.clipped(toBytes: Self.problemBytesMax)),
                payload: entry.message,
                at: self.clock.now(),
            )
            letter.deliveries = attempts
            letter.service = "feedback"
            let add = RedisCommand(
                "XADD",
                [
                    .text(self.keys.dead), "MAXLEN", "~", .integer(StreamLimits.deadLettersMax), "*", "m",
                    .bytes(try letter.encode()),
                ]
            )
            _ = try await self.streams.client.send(add, on: self.keys.tag)
        }
        self.shared.add(Int64(entries.count), to: self.metrics.webhookReceipts[.dead])
        self.logger.error("receipts were given up", metadata: ["count": "\(entries.count)", "problem": "\(problem)"])
    }
}
