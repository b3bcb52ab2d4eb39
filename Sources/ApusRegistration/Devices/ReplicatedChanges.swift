internal import ApusCore
internal import ApusRedis
internal import ApusStreams

/// Makes changes over HTTP, which are answered once replicas have them if there is a barrier.
struct ReplicatedChanges: Sendable {
    /// The barrier that changes wait at; nil when they wait for no replica.
    let barrier: ReplicaBarrier?

    /// Makes a change, and waits until replicas have it if there is a barrier.
    ///
    /// - Parameters:
    ///   - slots: those in which the change leaves something.
    ///   - name: the name of the change in the problem.
    ///   - hasEffect: true for a result that a replica must have.
    /// - Throws: a problem of 503 when it is not known that a replica has the change: it is to be asked for again.
    func make<Result>(
        _ slots: @autoclosure () -> [HashTag],
        of name: @autoclosure () -> String = "change",
        where hasEffect: (Result) -> Bool = { _ in true },
        _ change: () async throws -> Result,
    ) async throws -> Result {
        guard let barrier else { return try await change() }
        let slots = slots()
        do throws(RedisError) { try await barrier.prepare(for: slots) } catch {
            throw ProblemDetails.unavailable("Redis is away", retryAfterSeconds: 1, cause: "\(error)")
        }
        let ticket = barrier.ticket()
        let result = try await change()
        guard hasEffect(result) else { return result }
        do throws(RedisError) {
            try await barrier.wait(for: slots, acknowledgedAt: nil, since: ticket)
        } catch {
            let cause = "\(error)"
            throw ProblemDetails.unavailable("no replica has the \(name()) yet", retryAfterSeconds: 1, cause: cause)
        }
        return result
    }
}
