package import ApusRedis
package import Logging

/// Carries out a step once in each of several slots. A slot whose server is away or full gets it when the server is well again, so that a
/// service starts with the servers there are.
package struct SlotSetup: Sendable {
    /// The pause between two attempts for the slots that are left.
    private static let pause = Duration.milliseconds(500)

    /// The slots that are left.
    package private(set) var tags: [HashTag]
    private let name: String
    private let step: @Sendable (HashTag) async throws(RedisError) -> Void

    /// Creates a setup that has not begun.
    ///
    /// - Parameters:
    ///   - name: the step as log lines name it.
    ///   - step: makes one attempt; it may run several times.
    package init(
        _ name: String,
        in tags: [HashTag],
        _ step: @escaping @Sendable (HashTag) async throws(RedisError) -> Void,
    ) {
        self.name = name
        self.tags = tags
        self.step = step
    }

    /// Attempts the step in every slot that is left, in all at once.
    ///
    /// - Returns: the first error of the slots that are left; nil when none is.
    /// - Throws: an error that waiting does not cure.
    @discardableResult
    package mutating func attempt() async throws(RedisError) -> RedisError? {
        let (tags, step) = (self.tags, self.step)
        let failures = await withTaskGroup(of: (HashTag, RedisError)?.self) { group in
            for tag in tags {
                group.addTask {
                    do throws(RedisError) {
                        try await step(tag)
                        return nil
                    } catch {
                        return (tag, error)
                    }
                }
            }
            var failures: [HashTag: RedisError] = [:]
            for await failure in group { if let (tag, error) = failure { failures[tag] = error } }
            return failures
        }
        self.tags = tags.filter { failures[$0] != nil }
        if let lasting = failures.values.first(where: { !Self.mayPass($0) }) { throw lasting }
        return self.tags.first.flatMap { failures[$0] }
    }

    /// True for an error that waiting may cure. A full server has room again when services drain it, so it must not keep them from starting.
    private static func mayPass(_ error: RedisError) -> Bool {
        error.isRetryable || error.isUnanswered || error.code == .outOfMemory
    }

    /// Attempts the step until no slot is left, or the task is cancelled. An error that waiting does not cure is logged as one, and
    /// attempted again, too: an operator may cure it.
    package mutating func run(_ logger: Logger) async {
        var logged: RedisError.Code?
        while !self.tags.isEmpty, !Task.isCancelled {
            do throws(RedisError) {
                guard let error = try await self.attempt() else { break }
                let metadata: Logger.Metadata = [
                    "setup": "\(self.name)", "slots": "\(self.tags.count)", "error": "\(error)",
                ]
                if logged != error.code { logger.warning("slots wait for their server", metadata: metadata) }
                logged = error.code
            } catch {
                let metadata: Logger.Metadata = ["setup": "\(self.name)", "error": "\(error)"]
                if logged != error.code { logger.error("slots cannot be set up", metadata: metadata) }
                logged = error.code
            }
            try? await Task.sleep(for: Self.pause)
        }
        if logged != nil, self.tags.isEmpty {
            logger.notice("all slots are set up", metadata: ["setup": "\(self.name)"])
        }
    }
}
