package import ApusRedis

extension ShardConsumer {
    /// The client and executor by which entries are read and handled.
    package struct Site: Sendable {
        /// The executor that handles the entries.
        package let executor: LoopExecutor
        /// The client that reads the entries, over connections that live where the executor runs: its loop is one of the client's.
        package let client: RedisClient

        /// Creates a site.
        package init(executor: LoopExecutor, client: RedisClient) {
            self.executor = executor
            self.client = client
        }
    }

    /// A stream and how much of it may be in hand.
    package struct Feed: Sendable {
        /// The blocking reads of a shard, each over a connection of its own. Entries of one delay none of another.
        package enum Watch: CaseIterable, Sendable {
            /// The stream that somebody waits for: what comes is there sooner, and as much of it as there is room for.
            case urgent
            /// The streams that others than Apus write alone, and may damage.
            case foreign
            /// The others.
            case common
        }

        /// The key of the stream, of the shard.
        package var stream: String
        /// The maximum number of entries in hand. A feed of one keeps its order, also when an entry begins again.
        package var inHandMax: Int
        /// The number of bytes in hand from which nothing more is read.
        package var bytesInHandMax: Int
        /// The maximum number of entries in hand that wait for something of their own and leave their place to others.
        package var waitingMax: Int
        /// The maximum number of entries that one read asks for.
        package var countPerRead: Int
        /// The streams that the same blocking read waits for.
        package var watch: Watch
        /// The place where the entries are read and handled; nil: threads that all share, and the consumer's own client.
        package var site: Site?

        /// Creates a feed.
        package init(
            _ stream: String,
            inHandMax: Int,
            bytesInHandMax: Int = StreamLimits.inHandBytesMax,
            waitingMax: Int = StreamLimits.waitingInHandMax,
            countPerRead: Int,
            watch: Watch = .common,
            site: Site? = nil,
        ) {
            precondition(inHandMax > 0 && bytesInHandMax > 0 && waitingMax >= 0 && countPerRead > 0)
            self.stream = stream
            self.inHandMax = inHandMax
            self.bytesInHandMax = bytesInHandMax
            self.waitingMax = waitingMax
            self.countPerRead = countPerRead
            self.watch = watch
            self.site = site
        }
    }

    /// Makes the blocking reads of some feeds.
    struct Watcher {
        let connection: RedisBlockingConnection
        /// The executor of the feeds' common site; nil: they have none.
        let executor: LoopExecutor?

        init(_ feeds: [Feed], _ client: RedisClient, _ tag: HashTag) {
            let site = feeds[0].site
            guard let site, feeds.allSatisfy({ $0.site?.executor === site.executor }) else {
                self.connection = client.blockingConnection(for: tag)
                self.executor = nil
                return
            }
            self.connection = site.client.blockingConnection(for: tag, on: site.executor.eventLoop)
            self.executor = site.executor
        }
    }
}
