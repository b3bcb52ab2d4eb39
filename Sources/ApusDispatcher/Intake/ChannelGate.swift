internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// What is known of a broadcast channel, held against what is to be sent to it: what Apple would refuse is refused here.
struct ChannelGate: Sendable {
    let streams: SendStreams
    let routes: RouteBook

    /// Looks up the channel that a command names, if it names one of a route that is configured.
    ///
    /// - Throws: `Problem`: why nothing can be sent to it; or why Redis cannot be asked.
    func check(_ command: SendCommand, now: UnixMilliseconds) async throws {
        guard case .apnsChannel(let id, _, let storesLatest) = command.target, let route = self.route(of: command),
            let known = try await self.streams.channel(id, of: route, now: now),
            let problem = Self.problem(with: id, known, storesLatest: storesLatest)
        else { return }
        throw problem
    }

    /// Keeps in mind that Apple does not know the channel, if a report of a send to one says so.
    func learn(_ report: RunReport, of command: SendCommand) async throws {
        guard case .apnsChannel(let id, _, _) = command.target, report.tellsOfGoneChannel,
            let route = self.route(of: command)
        else { return }
        try await self.streams.note(goneChannel: id, of: route)
    }

    /// What is wrong with a send to a channel; nil: nothing.
    ///
    /// - Parameter storesLatest: what the publisher says of it. Whether the notification may have an expiry is judged by that, so it must
    ///   be true.
    static func problem(with id: String, _ known: KnownChannel, storesLatest: Bool) -> Problem? {
        switch known {
        case .gone:
            Problem(
                code: "channel_gone",
                field: "target.apns_channel.channel_id",
                detail:
                    "Apple has no such channel: make another with `apus channel create`, or, if it is there after all, say so with "
                    + "`apus channel show`; nothing was sent",
            )
        case .there(storesLatest): nil
        case .there(storesLatest: true):
            Problem(
                code: "contradiction",
                field: "target.apns_channel.stores_latest",
                detail: "must be true: the channel keeps its latest message",
            )
        case .there:
            Problem(
                code: "contradiction",
                field: "target.apns_channel.stores_latest",
                detail:
                    "must be false: the channel keeps no message, and takes none that has an expiry other than a time to live of 0",
            )
        }
    }

    private func route(of command: SendCommand) -> RouteNumber? {
        guard case .apnsChannel(_, let environment, _) = command.target, let app = try? AppID(command.app) else {
            return nil
        }
        return self.routes.entry(Route(app: app, provider: .apns, environment: environment))?.number
    }
}

extension RunReport {
    /// Whether Apple said of a channel that it is not there: the only way in which a broadcast is rejected as unregistered.
    fileprivate var tellsOfGoneChannel: Bool {
        self.counts(provider: .apns).contains { $0.outcome == .rejected && $0.reason == .unregistered }
    }
}
