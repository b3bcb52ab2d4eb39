internal import ApusCore
internal import ApusRedis
internal import ApusStreams
internal import Synchronization

/// Queries the streams of many shards at once, each shard for itself: a server that hangs or is away keeps only its own numbers away.
struct StreamSurvey: Sendable {
    /// The maximum number of streams queried at a time, with at most four commands each; one of each shard at least.
    static let atOnceMax = 128
    /// The longest time that it takes. What has not answered by then is missing.
    static let durationMax = Duration.milliseconds(1_500)

    /// The answer to one query.
    struct Answer: Sendable {
        var query: StreamQuery
        var count: StreamCount
    }

    /// The answers of one shard whose server is there.
    struct ShardAnswers: Sendable {
        /// The time of the shard's server.
        var now: UnixMilliseconds
        var answers: [Answer] = []
        /// False while queries are not answered: too many for the time, or refused.
        var isComplete = false
    }

    let client: RedisClient

    /// The answers so far.
    private final class Answers: Sendable {
        let byShard = Mutex<[HashTag: ShardAnswers]>([:])
    }

    /// Returns the answers by shard; a shard whose server answered nothing in time is missing.
    func answers(to queries: [StreamQuery]) async -> [HashTag: ShardAnswers] {
        let answers = Answers()
        let shards = Dictionary(grouping: queries, by: \.tag)
        let atOnce = max(1, Self.atOnceMax / max(1, shards.count))
        await firstWithin(Self.durationMax) {
            await withTaskGroup(of: Void.self) { group in
                for (tag, queries) in shards {
                    group.addTask { await self.ask(queries, at: tag, atOnce: atOnce, answers) }
                }
            }
        }
        return answers.byShard.withLock { $0 }
    }

    /// Adds the answers of one shard.
    private func ask(_ queries: [StreamQuery], at tag: HashTag, atOnce: Int, _ answers: Answers) async {
        // This question alone tells whether the server answers.
        guard let now = try? await StreamQuery.now(self.client, at: tag) else { return }
        var shard = ShardAnswers(now: now)
        answers.byShard.withLock { $0[tag] = shard }
        var rest = queries[...]
        while !rest.isEmpty {
            let part = rest.prefix(atOnce)
            rest = rest.dropFirst(part.count)
            let found = await withTaskGroup(of: Answer?.self) { group in
                for query in part { group.addTask { await self.answer(to: query, now: now) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            guard !Task.isCancelled else { return }
            shard.answers += found.compactMap(\.self)
            shard.isComplete = shard.answers.count == queries.count
            answers.byShard.withLock { $0[tag] = shard }
        }
    }

    private func answer(to query: StreamQuery, now: UnixMilliseconds) async -> Answer? {
        guard let count = try? await query.count(self.client, now: now) else { return nil }
        return Answer(query: query, count: count)
    }
}
