package import ApusRedis

extension ShardConsumer {
    /// Where entries are read and handled.
    package struct Site: Sendable {
        /// Runs what handles them.
        package let executor: any TaskExecutor
        /// Reads them when there is a backlog: at best over connections that live where the executor runs.
        package let client: RedisClient

        /// A site.
        package init(executor: any TaskExecutor, client: RedisClient) {
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
        /// nil: threads that all share, and the consumer's own client.
        package var site: Site?

        /// A feed.
        package init(
            _ stream: String,
            inHandMax: Int,
            bytesInHandMax: Int = StreamLimits.inHandBytesMax,
            countPerRead: Int,
            site: Site? = nil,
        ) {
            precondition(inHandMax > 0 && bytesInHandMax > 0 && countPerRead > 0)
            self.stream = stream
            self.inHandMax = inHandMax
            self.bytesInHandMax = bytesInHandMax
            self.countPerRead = countPerRead
            self.site = site
        }
    }
}
