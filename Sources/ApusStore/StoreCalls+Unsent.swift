internal import ApusCore
internal import ApusRedis

/// Sends calls beside each other, or one behind the other, before their answers are awaited.
extension StoreCalls {
    /// A call that was not sent yet.
    struct UnsentCall<Answer: Sendable>: Sendable {
        fileprivate let function: String
        fileprivate let command: RedisClient.AddressedCommand
        /// Reads the answer; nil when it has another form.
        fileprivate let read: @Sendable (RESPNode) throws(StoreError) -> Answer?

        /// Awaits the reply, and reads the answer in it.
        fileprivate func answer(
            in reply: () async throws(RedisError) -> RESPReply
        ) async throws(StoreError) -> Answer {
            let received: RESPReply
            do throws(RedisError) { received = try await reply() } catch {
                throw StoreError(.redis, "\(self.function): \(error)", redis: error)
            }
            guard let answer = try self.read(received.root) else { throw StoreCalls.unexpected(self.function) }
            return answer
        }

        /// Returns the same call with another answer.
        func map<Other>(
            _ transform: @escaping @Sendable (Answer) throws(StoreError) -> Other
        ) -> UnsentCall<Other> {
            let read = self.read
            return UnsentCall<Other>(function: self.function, command: self.command) { node throws(StoreError) in
                guard let answer = try read(node) else { return nil }
                return try transform(answer)
            }
        }
    }

    /// A call that was sent.
    struct SentCall<Answer: Sendable>: Sendable {
        fileprivate let call: UnsentCall<Answer>
        fileprivate let reply: PendingReply

        /// Awaits the answer.
        func answer() async throws(StoreError) -> Answer {
            try await self.call.answer { () async throws(RedisError) in try await self.reply.get() }
        }
    }

    /// Returns a call to a partition.
    ///
    /// - Parameter read: reads the answer; nil when it has another form.
    func unsent<Call: FunctionCall, Answer>(
        _ call: Call,
        _ partition: Int,
        _ read: @escaping @Sendable (RESPNode) throws(StoreError) -> Answer?,
    ) -> UnsentCall<Answer> {
        UnsentCall(
            function: Call.function,
            command: RedisClient.AddressedCommand(call.command, on: self.keys.tag(partition)),
            read: read,
        )
    }

    /// Sends a call, and returns at once.
    func begin<Answer>(_ call: UnsentCall<Answer>) -> SentCall<Answer> {
        SentCall(call: call, reply: self.client.begin(call.command))
    }

    /// Sends a call, and awaits the answer.
    func answer<Answer>(to call: UnsentCall<Answer>) async throws(StoreError) -> Answer {
        let (command, tag) = (call.command.command, call.command.tag)
        return try await call.answer { () async throws(RedisError) in
            try await self.client.send(command, on: tag, options: .idempotent)
        }
    }

    /// Sends two or three calls one behind the other, each once, where one server has all their slots: it carries them out in that order.
    ///
    /// - Returns: nil when nothing was sent.
    func beginInOrder<First, Second, Third>(
        _ first: UnsentCall<First>,
        _ second: UnsentCall<Second>?,
        _ third: UnsentCall<Third>?,
    ) -> (SentCall<First>, SentCall<Second>?, SentCall<Third>?)? {
        let commands = [first.command] + [second?.command, third?.command].compactMap(\.self)
        guard var replies = self.client.beginInOrder(commands)?.makeIterator(), let reply = replies.next() else {
            return nil
        }
        let next = second.flatMap { call in replies.next().map { SentCall(call: call, reply: $0) } }
        let last = third.flatMap { call in replies.next().map { SentCall(call: call, reply: $0) } }
        return (SentCall(call: first, reply: reply), next, last)
    }

    /// Returns the elements of an answer with one for each of `count`, as `read` understands them; nil when it has another form.
    static func elements<Element>(
        _ reply: RESPNode,
        _ count: Int,
        _ read: (RESPNode) -> Element?,
    ) -> [Element]? {
        var elements: [Element] = []
        elements.reserveCapacity(count)
        for node in reply.children {
            guard let element = read(node) else { return nil }
            elements.append(element)
        }
        return elements.count == count ? elements : nil
    }
}
