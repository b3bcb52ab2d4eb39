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
/// receiver does not take is tried again, exponentially later with full jitter, and after the last try each of its receipts becomes a
/// dead letter (`apus dead list`), and the next batch has its turn.
struct WebhookSender: Sendable {
    /// How long an owner may be silent: longer than a request may take, and longer than a part of a wait.
    static func lease(timeout: Duration) -> Duration { max(.seconds(3), timeout * 3) }

    /// How long it rests when there is nothing to post: what comes meanwhile goes together.
    static let pause = Duration.seconds(1)
    /// Why a batch is posted again or given up, in a dead letter: bytes at most.
    static let problemBytesMax = 512

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
        _ = try? await self.streams.retire(stream: self.keys.receipts, consumer: consumer, tag: self.keys.tag)
    }

    /// Takes those off the group who died and left nothing.
    private func sweep() async {
        let silent = try? await self.streams.silentConsumers(
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
        let receipts = entries.compactMap { entry in
            (try? SendReceipt.decode(entry.message)).map { (id: entry.id, receipt: $0) }
        }
        // Of a later version.
        if receipts.count < entries.count { self.logger.warning("receipts that cannot be read are passed over") }
        do {
            if !receipts.isEmpty, try await !self.post(receipts, entries) { return true }
        } catch {
            await Task { try? await self.giveBack(entries) }.value
            throw error
        }
        let ids = entries.map { RedisArgument.text($0.id) }
        let acknowledge = RedisCommand("XACK", [.text(self.keys.receipts), .text(self.consumer.group)] + ids)
        _ = try await self.streams.client.send(acknowledge, on: self.keys.tag, options: .idempotent)
        return true
    }

    /// What somebody left, else what is new.
    private func take() async throws -> [StreamEntry] {
        let reader = StreamReader(client: self.streams.client, tag: self.keys.tag, consumer: self.consumer)
        let claims = try await self.streams.claim(
            [SendStreams.ClaimRequest(self.keys.receipts)],
            by: self.consumer,
            tag: self.keys.tag,
            leaseMilliseconds: Int64(self.lease / .milliseconds(1)),
        )
        if claims.first?.cursor == nil { try await reader.ensure([self.keys.receipts]) }
        if let left = claims.first?.entries, !left.isEmpty { return left }
        return try await reader.read(self.keys.receipts, count: self.settings.batch)
    }

    private func giveBack(_ entries: [StreamEntry]) async throws {
        try await self.streams.handBack(
            stream: self.keys.receipts,
            entries: entries.map(\.id),
            by: self.consumer,
            tag: self.keys.tag,
        )
    }

    /// - Returns: false: another owns the batch by now.
    private func post(_ receipts: [(id: String, receipt: SendReceipt)], _ entries: [StreamEntry]) async throws -> Bool {
        var attempt: UInt32 = 0
        while true {
            attempt += 1
            guard let problem = await self.attempt(receipts) else {
                self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.delivered])
                return true
            }
            try Task.checkCancellation()
            let decision = self.retry.decide(
                attempt: attempt,
                retryAfterMilliseconds: nil,
                now: self.clock.now(),
                expiresAt: nil,
                draw: .random(in: 0..<1),
            )
            guard case .retry(let next) = decision else {
                try await self.bury(entries, problem, attempt)
                return true
            }
            self.shared.add(Int64(receipts.count), to: self.metrics.webhookReceipts[.retried])
            guard try await self.wait(until: next, entries) else { return false }
        }
    }

    /// Why the receiver did not take them; nil: it did.
    private func attempt(_ receipts: [(id: String, receipt: SendReceipt)]) async -> String? {
        guard let secret = self.settings.secret else { return "the secret cannot be read" }
        let request = WebhookRequest(receipts, shard: self.shard, secret: secret, now: self.clock.now())
        do {
            let status = try await self.client.post(request)
            return (200..<300).contains(status) ? nil : "the receiver answered \(status)"
        } catch {
            return "\(error)"
        }
    }

    /// - Returns: false: another owns the batch by now.
    private func wait(until next: UnixMilliseconds, _ entries: [StreamEntry]) async throws -> Bool {
        let holdings = entries.map { SendStreams.Holding(stream: $0.stream, id: $0.id) }
        while true {
            guard try await self.streams.renew(holdings, by: self.consumer, tag: self.keys.tag) == entries.count
            else { return false }
            let left = next.milliseconds(since: self.clock.now())
            guard left > 0 else { return true }
            // In parts, so that the lease is renewed in time.
            try await Task.sleep(for: min(.milliseconds(left), self.lease / 4))
        }
    }

    private func bury(_ entries: [StreamEntry], _ problem: String, _ attempts: UInt32) async throws {
        for entry in entries {
            let detail = "the webhook did not take it in \(attempts) tries: \(problem)"
            var letter = DeadLetter(
                stream: entry.stream,
                entry: entry.id,
                cause: .poison,
                problem: Problem(code: "webhook", detail: detail.clipped(toBytes: Self.problemBytesMax)),
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
