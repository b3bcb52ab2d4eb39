internal import ApusCore
internal import ApusRedis

/// Sends calls beside each other, or one behind the other, before their answers are awaited.
extension StoreCalls {
    /// A call that was not sent yet.
    struct Request<Answer: Sendable>: Sendable {
        fileprivate let function: String
        fileprivate let command: RedisClient.AddressedCommand
        /// Reads the answer; nil when it has another form.
        fileprivate let read: @Sendable (RESPNode) throws(StoreError) -> Answer?

        /// Returns the same request with another answer.
        func map<Other>(
            _ transform: @escaping @Sendable (Answer) throws(StoreError) -> Other
        ) -> Request<Other> {
            let read = self.read
            return Request<Other>(function: self.function, command: self.command) { node throws(StoreError) in
                guard let answer = try read(node) else { return nil }
                return try transform(answer)
            }
        }
    }

    /// A call that was sent.
    struct Pending<Answer: Sendable>: Sendable {
        fileprivate let request: Request<Answer>
        fileprivate let reply: PendingReply

        /// Awaits the answer.
        func answer() async throws(StoreError) -> Answer {
            let reply: RESPReply
            do throws(RedisError) {
                reply = try await self.reply.get()
            } catch {
                throw StoreError(.redis, "\(self.request.function): \(error)", redis: error)
            }
            guard let answer = try self.request.read(reply.root) else {
                throw StoreCalls.unexpected(self.request.function)
            }
            return answer
        }
    }

    /// Returns the request of a call to a partition.
    ///
    /// - Parameter read: reads the answer; nil when it has another form.
    func request<Call: FunctionCall, Answer>(
        _ call: Call,
        _ partition: Int,
        _ read: @escaping @Sendable (RESPNode) throws(StoreError) -> Answer?,
    ) -> Request<Answer> {
        Request(
            function: Call.function,
            command: RedisClient.AddressedCommand(call.command, on: self.keys.tag(partition)),
            read: read,
        )
    }

    /// Sends a request, and returns at once.
    func begin<Answer>(_ request: Request<Answer>) -> Pending<Answer> {
        Pending(request: request, reply: self.client.begin(request.command))
    }

    /// Sends a request, and awaits the answer.
    func answer<Answer>(to request: Request<Answer>) async throws(StoreError) -> Answer {
        try await self.begin(request).answer()
    }

    /// Sends two or three requests one behind the other, each once, where one server has all their slots: it carries them out in that order.
    ///
    /// - Returns: nil when nothing was sent.
    func beginInOrder<First, Second, Third>(
        _ first: Request<First>,
        _ second: Request<Second>?,
        _ third: Request<Third>?,
    ) -> (Pending<First>, Pending<Second>?, Pending<Third>?)? {
        let commands = [first.command] + [second?.command, third?.command].compactMap(\.self)
        guard var replies = self.client.beginInOrder(commands)?.makeIterator(), let reply = replies.next() else {
            return nil
        }
        let pending = Pending(request: first, reply: reply)
        let next = second.flatMap { request in replies.next().map { Pending(request: request, reply: $0) } }
        let last = third.flatMap { request in replies.next().map { Pending(request: request, reply: $0) } }
        return (pending, next, last)
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
