internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// What is known of a broadcast channel, held against what is to be sent to it: what the provider would refuse is refused here.
struct ChannelGate: Sendable {
    let streams: SendStreams
    let routes: RouteTable

    /// Looks up the channel that a command names, if it names one of a route that is configured.
    ///
    /// - Throws: `Problem`: why nothing can be sent to it; or why Redis cannot be asked.
    func check(_ command: SendCommand, now: UnixMilliseconds) async throws {
        guard let channel = command.target.channel, let route = self.route(of: command),
            let known = try await self.streams.channels.find(channel.id, of: route, now: now),
            let problem = Self.problem(with: known, storesLatest: channel.storesLatest)
        else { return }
        throw problem
    }

    /// Keeps in mind that the provider does not know the channel, if the outcomes of a send to one say so.
    func learn(_ counts: [OutcomeCount], of command: SendCommand) async throws {
        guard let channel = command.target.channel,
            // The only way in which a broadcast is rejected as unregistered.
            counts.contains(where: { $0.outcome == .rejected && $0.reason == .unregistered }),
            let route = self.route(of: command)
        else { return }
        try await self.streams.channels.record(goneChannel: channel.id, of: route)
    }

    /// What is wrong with a send to a channel; nil: nothing.
    ///
    /// - Parameter storesLatest: what the publisher says of it. Whether the notification may have an expiry is judged by that, so it must
    ///   be true.
    static func problem(with known: KnownChannel, storesLatest: Bool) -> Problem? {
        switch known {
        case .gone:
            Problem(
                code: "channel_gone",
                field: "target.apns_channel.channel_id",
                detail:
                    "the provider has no such channel: make another with `apus channel create`, or, if it is there after all, say so with "
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
        guard let provider = command.target.holder, let app = try? AppID(command.app) else { return nil }
        let environment = command.target.holderEnvironment ?? .production
        return self.routes.entry(Route(app: app, provider: provider, environment: environment))?.number
    }
}
