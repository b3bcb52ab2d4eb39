package import ApusCore
internal import ApusInstallation
package import ApusMessages
internal import ApusRedis
package import ApusStreams

extension LocalCluster {
    /// Returns a command as the cluster publishes it.
    package func command(_ target: Target, id: String, app: String = LocalCluster.app) -> SendCommand {
        var notification = Notification()
        notification.title = "Hello"
        notification.body = "World"
        var command = SendCommand(app: app, target: target, notification: notification)
        command.id = id
        command.publishedAtNanoseconds = self.clock.nanosecondsSince1970()
        return command
    }

    /// Publishes a send.
    ///
    /// - Throws: when it was not accepted as a new send.
    package func send(
        _ target: Target,
        id: String,
        app: String = LocalCluster.app,
        lane: Lane = .bulk,
        _ change: (inout SendCommand) -> Void = { _ in },
    ) async throws {
        var command = self.command(target, id: id, app: app)
        change(&command)
        guard case .new = try await self.installation.streams.mailboxes.publish(command, lane: lane) else {
            throw LocalClusterError("\(id) was not accepted as a new send")
        }
    }

    /// Pauses the production routes of an app; returns their numbers. A dispatcher that runs may send for the rest of a lease: to send
    /// nothing at all, call this before one starts.
    @discardableResult
    package func pauseRoutes(
        of app: String = LocalCluster.app,
        providers: [Provider] = [.apns, .fcm],
    ) async throws -> [RouteNumber] {
        let routes = self.installation.streams.routes
        var numbers: [RouteNumber] = []
        for provider in providers {
            let route = Route(app: try AppID(app), provider: provider, environment: .production)
            let number = try await routes.number(of: route)
            try await routes.control(number, .pause)
            numbers.append(number)
        }
        return numbers
    }

    /// Returns the ledger of a send; nil when there is none.
    package func ledger(of send: String, app: String = LocalCluster.app) async throws -> SendLedger? {
        try await self.installation.streams.outcomes.ledger(app: app, send: send)
    }

    /// Waits until a planned send is complete.
    ///
    /// - Parameter meanwhile: called repeatedly until then.
    package func completion(
        of send: String,
        app: String = LocalCluster.app,
        timeout: Duration = .seconds(180),
        meanwhile: () async throws -> Void = {},
    ) async throws -> SendLedger {
        let deadline = ContinuousClock.now + timeout
        while true {
            let ledger = try await self.ledger(of: send, app: app)
            if let ledger, ledger.state == .done { return ledger }
            guard ContinuousClock.now < deadline else {
                throw LocalClusterError(
                    "\(send) is not complete within \(timeout): \(ledger.map { "\($0)" } ?? "it has no ledger"); "
                        + "left: \(try await self.remainingEntries())"
                )
            }
            try await meanwhile()
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// Returns the receipts of a send, in the order of writing.
    package func receipts(of send: String) async throws -> [SendReceipt] {
        var receipts: [SendReceipt] = []
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            let reply = try await self.client.send(RedisCommand("XRANGE", .text(keys.receipts), "-", "+"), on: keys.tag)
            for entry in reply.root.children {
                let receipt = try SendReceipt.decode(entry[1][1].bytes ?? [])
                if receipt.send == send { receipts.append(receipt) }
            }
        }
        return receipts
    }
}
