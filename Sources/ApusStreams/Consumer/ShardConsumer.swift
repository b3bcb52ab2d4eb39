package import ApusRedis
package import Logging
internal import Synchronization

/// Runs one queue shard for one consumer: reads its streams, keeps what is in hand, takes over what others left.
///
/// Entries are handled concurrently, each feed within its own credit; when that is used up, its streams are not read. An entry whose
/// handling throws stays pending and comes back after a lease.
package final class ShardConsumer: Sendable {
    /// Streams that are read together.
    package struct Feed: Sendable {
        /// Their keys, all of the shard.
        package var streams: [String]
        /// Entries in hand at once.
        package var inHandMax: Int
        /// Entries asked for at once, of each stream.
        package var countPerRead: Int

        /// A feed.
        package init(_ streams: [String], inHandMax: Int, countPerRead: Int) {
            self.streams = streams
            self.inHandMax = inHandMax
            self.countPerRead = countPerRead
        }
    }

    /// Does what an entry asks for, to its acknowledgement.
    package typealias Handle = @Sendable (StreamEntry) async throws -> Void

    private let tag: HashTag
    private let streams: SendStreams
    private let consumer: StreamConsumer
    private let feeds: [(feed: Feed, inHand: EntriesInHand)]
    private let leaseMilliseconds: Int64
    private let observer: any StreamObserver
    private let logger: Logger
    private let handle: Handle
    private let stopping = Atomic<Bool>(false)

    /// How long a blocking read waits; a stop is noticed that soon.
    private static let blockMilliseconds = 1_000

    /// A consumer that is not running yet.
    package init(
        tag: HashTag,
        streams: SendStreams,
        consumer: StreamConsumer,
        feeds: [Feed],
        leaseMilliseconds: Int64,
        observer: any StreamObserver,
        logger: Logger,
        handle: @escaping Handle,
    ) {
        precondition(leaseMilliseconds >= 200)
        self.tag = tag
        self.streams = streams
        self.consumer = consumer
        self.feeds = feeds.map { ($0, EntriesInHand(countMax: $0.inHandMax)) }
        self.leaseMilliseconds = leaseMilliseconds
        self.observer = observer
        self.logger = logger
        self.handle = handle
    }

    /// Whether `stop` was called: what is in hand is to be brought to a good end soon.
    package var isStopping: Bool { self.stopping.load(ordering: .relaxed) }

    /// Reads nothing more; `run` returns when nothing is in hand.
    package func stop() {
        self.stopping.store(true, ordering: .relaxed)
        for (_, inHand) in self.feeds { inHand.stop() }
    }

    /// Runs until `stop` or cancellation, then until nothing is in hand.
    package func run() async {
        await withTaskCancellationHandler {
            await self.runUntilStopped()
        } onCancel: {
            self.stop()
        }
    }

    /// Waits that long even in a task that was cancelled: what is in hand keeps its lease to the end, and no loop turns hot.
    private static func pause(_ duration: Duration) async {
        await Task { try? await Task.sleep(for: duration) }.value
    }

    private func runUntilStopped() async {
        let reader = StreamReader(client: self.streams.client, tag: self.tag, consumer: self.consumer)
        await withTaskGroup(of: Void.self) { group in
            for (feed, inHand) in self.feeds {
                group.addTask { await self.read(feed, inHand, reader) }
                group.addTask { await self.takeOver(feed, inHand) }
            }
            group.addTask { await self.renew() }
            await group.waitForAll()
        }
        for (feed, _) in self.feeds {
            for stream in feed.streams {
                _ = try? await self.streams.retire(stream: stream, consumer: self.consumer, tag: self.tag)
            }
        }
    }

    // MARK: Reading

    private func read(_ feed: Feed, _ inHand: EntriesInHand, _ reader: StreamReader) async {
        let connection = self.streams.client.blockingConnection(for: self.tag)
        var mustEnsure = true
        while await inHand.waitForRoom() {
            do {
                if mustEnsure { try await reader.ensure(feed.streams) }
                mustEnsure = false
                let entries = try await reader.read(
                    feed.streams,
                    count: feed.countPerRead,
                    blockMilliseconds: Self.blockMilliseconds,
                    on: connection,
                )
                for entry in entries {
                    self.observer.entriesRead(1, stream: entry.stream)
                    self.begin(entry, inHand)
                }
            } catch {
                mustEnsure = true
                await self.recover(from: error)
            }
        }
        await connection.close()
        await inHand.waitUntilEmpty()
    }

    /// A stream or a group has vanished, or Redis has. What was in a vanished stream is lost: that is said loudly.
    private func recover(from error: any Error) async {
        guard !self.isStopping else { return }
        let code = (error as? RedisError)?.code
        if code == .noGroup || code == .unblocked {
            self.logger.error("a stream or its group vanished; making it again from 0", metadata: ["error": "\(error)"])
            self.observer.groupLost()
        } else {
            self.logger.warning("cannot read streams", metadata: ["error": "\(error)", "shard": "\(self.tag)"])
        }
        await Self.pause(.milliseconds(Int64.random(in: 100...500)))
    }

    private func begin(_ entry: StreamEntry, _ inHand: EntriesInHand) {
        guard inHand.add(entry) else { return }
        Task {
            do {
                try await self.handle(entry)
            } catch {
                self.logger.error(
                    "entry not handled; it comes back",
                    metadata: ["stream": "\(entry.stream)", "entry": "\(entry.id)", "error": "\(error)"],
                )
            }
            inHand.remove(entry)
        }
    }

    // MARK: Leases

    /// What is in hand stays ours, however long a provider or a full stream keeps it waiting.
    private func renew() async {
        while !self.isStopping || self.feeds.contains(where: { !$0.inHand.isEmpty }) {
            await Self.pause(.milliseconds(self.leaseMilliseconds / 4))
            for (stream, entries) in self.feeds.flatMap({ $0.inHand.byStream }) {
                do {
                    _ = try await self.streams.renew(stream: stream, entries: entries, by: self.consumer, tag: self.tag)
                } catch {
                    self.logger.warning("cannot renew leases", metadata: ["stream": "\(stream)", "error": "\(error)"])
                }
            }
        }
    }

    private func takeOver(_ feed: Feed, _ inHand: EntriesInHand) async {
        var cursors: [String: String] = [:]
        // More often than half a lease: a longer pause reads as "Redis was frozen" and grants everybody an amnesty.
        let interval = max(50, min(self.leaseMilliseconds / 4, 1_000))
        while await inHand.waitForRoom() {
            await Self.pause(.milliseconds(interval))
            for stream in feed.streams where !self.isStopping {
                do {
                    let claim = try await self.streams.claim(
                        stream: stream,
                        by: self.consumer,
                        tag: self.tag,
                        leaseMilliseconds: self.leaseMilliseconds,
                        cursor: cursors[stream] ?? "0-0",
                    )
                    cursors[stream] = claim.cursor
                    self.take(claim, stream, inHand)
                } catch {
                    cursors[stream] = nil
                    guard (error as? RedisError)?.code != .noGroup else { continue }
                    self.logger.warning("cannot take over", metadata: ["stream": "\(stream)", "error": "\(error)"])
                }
            }
        }
    }

    private func take(_ claim: SendStreams.Claim, _ stream: String, _ inHand: EntriesInHand) {
        for entry in claim.entries {
            self.observer.entryClaimed(stream: stream)
            self.logger.notice(
                "took over an entry",
                metadata: ["stream": "\(stream)", "entry": "\(entry.id)", "deliveries": "\(entry.deliveries)"],
            )
            self.begin(entry, inHand)
        }
        guard !claim.vanished.isEmpty else { return }
        self.observer.entriesVanished(claim.vanished.count, stream: stream)
        self.logger.error(
            "entries vanished before they were acknowledged: their work is lost",
            metadata: ["stream": "\(stream)", "count": "\(claim.vanished.count)"],
        )
    }
}
