internal import NIOCore

/// The reply to a command that was sent. Commands that begin in one turn of an event loop leave in one write, whoever awaits their replies
/// in whatever order.
package struct PendingReply: Sendable {
    fileprivate let future: EventLoopFuture<RESPReply>

    /// Awaits the reply, which is not an error.
    ///
    /// - Throws: the server's error, or the reason for a missing reply.
    package func get() async throws(RedisError) -> RESPReply {
        do {
            return try await self.future.get()
        } catch {
            throw RedisError(error)
        }
    }
}

extension RedisClient {
    /// A command with the tag that leads to its server.
    package struct AddressedCommand: Sendable {
        /// The command.
        package let command: RedisCommand
        /// The tag of its keys.
        package let tag: HashTag

        /// Creates an addressed command.
        package init(_ command: RedisCommand, on tag: HashTag) {
            self.command = command
            self.tag = tag
        }
    }

    /// Sends a command as `send` does, and returns at once.
    package func begin(_ command: AddressedCommand, options: Options = .idempotent) -> PendingReply {
        let eventLoop = self.eventLoopGroup.any()
        return PendingReply(
            future: self.send(command.command, on: command.tag, options: options, eventLoop: eventLoop)
        )
    }

    /// Sends commands one behind the other over one connection, each once, and returns at once. The server carries them out in that order,
    /// so when one has an answer, whatever stands before it was carried out or refused before it.
    ///
    /// - Returns: nil when nothing was sent: the tags have several servers, there is no connection, or the caller is on no event loop of
    ///   the group.
    package func beginInOrder(_ commands: [AddressedCommand]) -> [PendingReply]? {
        let eventLoop = self.eventLoopGroup.any()
        guard eventLoop.inEventLoop else { return nil }
        return self.connections(of: eventLoop).sendInOrder(commands)?.map { PendingReply(future: $0) }
    }
}
