package import ApusRedis

extension ShardConsumer {
    /// The client and executor by which entries are read and handled.
    package struct Site: Sendable {
        /// Runs what handles them.
        package let executor: LoopExecutor
        /// Reads them, over connections that live where the executor runs: its loop is one of the client's.
        package let client: RedisClient

        /// A site.
        package init(executor: LoopExecutor, client: RedisClient) {
            self.executor = executor
            self.client = client
        }
    }

    /// A stream and how much of it may be in hand.
    package struct Feed: Sendable {
        /// Its key, of the shard.
        package var stream: String
        /// Entries in hand at once.
        package var inHandMax: Int
        /// Bytes in hand from which nothing is read.
        package var bytesInHandMax: Int
        /// Entries asked for at once.
        package var countPerRead: Int
        /// True when a blocking read waits for this stream alone. What comes is there sooner, and as much of it as there is room for;
        /// it costs a connection.
        package var isWatchedAlone: Bool
        /// nil: threads that all share, and the consumer's own client.
        package var site: Site?

        /// A feed.
        package init(
            _ stream: String,
            inHandMax: Int,
            bytesInHandMax: Int = StreamLimits.inHandBytesMax,
            countPerRead: Int,
            isWatchedAlone: Bool = false,
            site: Site? = nil,
        ) {
            precondition(inHandMax > 0 && bytesInHandMax > 0 && countPerRead > 0)
            self.stream = stream
            self.inHandMax = inHandMax
            self.bytesInHandMax = bytesInHandMax
            self.countPerRead = countPerRead
            self.isWatchedAlone = isWatchedAlone
            self.site = site
        }
    }

    /// Makes the blocking reads of some feeds.
    struct Watcher {
        let connection: RedisBlockingConnection
        /// nil: the feeds have no site in common.
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
