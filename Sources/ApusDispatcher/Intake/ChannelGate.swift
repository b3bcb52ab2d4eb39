internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// Rejects sends to a broadcast channel that the provider would refuse, from what is known of the channel.
struct ChannelGate: Sendable {
    let streams: SendStreams
    let routes: RouteTable

    /// Checks the channel that a command names, if its route is configured.
    ///
    /// - Throws: `Problem` with the reason why nothing can be sent to the channel, or an error if Redis cannot be
    ///   asked.
    func check(_ command: SendCommand, now: UnixMilliseconds) async throws {
        guard let channel = command.target.channel, let route = self.route(of: command),
            let known = try await self.streams.channels.find(channel.id, of: route, now: now),
            let problem = Self.problem(with: known, storesLatest: channel.storesLatest)
        else { return }
        throw problem
    }

    /// Records that the provider does not know a channel, if the outcomes of a send to it say so.
    func learn(_ counts: [OutcomeCount], of command: SendCommand) async throws {
        guard let channel = command.target.channel,
            // A broadcast is rejected as unregistered for no other reason.
            counts.contains(where: { $0.outcome == .rejected && $0.reason == .unregistered }),
            let route = self.route(of: command)
        else { return }
        try await self.streams.channels.record(goneChannel: channel.id, of: route)
    }

    /// Returns the problem with a send to a channel; nil if there is none.
    ///
    /// - Parameter storesLatest: the publisher's statement about the channel. It must be true, because it decides
    ///   whether the notification may have an expiry.
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
