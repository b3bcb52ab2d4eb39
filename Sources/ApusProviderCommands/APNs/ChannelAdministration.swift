package import ApusAPNs
internal import ApusCommand
package import ApusCore
package import ApusInstallation
internal import ApusStreams
internal import ApusTerminal

/// Manages an app's broadcast channels in one of Apple's environments: sends requests to Apple, and stores the answers
/// where dispatchers look them up before sending.
package struct ChannelAdministration: Sendable {
    private let access: ProviderAccess
    private let streams: SendStreams
    private let route: Route
    private let clock = SystemClock()

    /// Creates the administration of the app that `access` is for.
    package init(_ access: ProviderAccess, _ installation: Installation, environment: ProviderEnvironment) {
        self.access = access
        self.streams = installation.streams
        self.route = Route(app: access.app, provider: .apns, environment: environment)
    }

    /// A channel at Apple.
    package struct Row: Hashable, Sendable {
        /// The channel's id.
        package let id: APNsChannelID
        /// The channel's storage policy; nil when it is unknown here.
        package let storage: APNsChannelStorage?

        /// Creates a row.
        package init(id: APNsChannelID, storage: APNsChannelStorage?) {
            self.id = id
            self.storage = storage
        }
    }

    /// Creates a channel.
    ///
    /// - Parameter made: called with it at once: whatever fails afterwards, the channel exists.
    @discardableResult
    package func create(
        _ storage: APNsChannelStorage,
        made: (APNsChannelID) -> Void = { _ in },
    ) async throws -> APNsChannelID {
        guard case .created(let id) = try await self.send(.create(storage)) else { throw Self.unexpected }
        made(id)
        try await self.note(id, storage)
        return id
    }

    /// Returns a channel's storage policy. Throws for a channel that Apple does not know, and forgets it.
    package func show(_ id: APNsChannelID) async throws -> APNsChannelStorage {
        guard case .storage(let storage) = try await self.send(.read(id), about: id) else { throw Self.unexpected }
        try await self.note(id, storage)
        return storage
    }

    /// Deletes a channel. One that Apple does not know counts as deleted.
    package func delete(_ id: APNsChannelID) async throws {
        guard case .deleted = try await self.send(.delete(id)) else { throw Self.unexpected }
        try await self.noteGone(id)
    }

    /// Returns all channels at Apple, in its order, and forgets stored ones that Apple no longer has.
    package func list() async throws -> [Row] {
        guard case .channels(let ids) = try await self.send(.list) else { throw Self.unexpected }
        let route = try await self.streams.routes.number(of: self.route)
        let known = try await self.streams.channels.all(of: route, now: self.clock.now())
        try await self.streams.channels.forget(
            channels: KnownChannel.outdated(known, by: Set(ids.map(\.text))),
            of: route
        )
        return ids.map { id in
            guard case .there(let storesLatest) = known[id.text] else { return Row(id: id, storage: nil) }
            return Row(id: id, storage: storesLatest ? .latest : APNsChannelStorage.none)
        }
    }

    // MARK: Apple and Redis

    private static let unexpected = CommandFailure("Apple's answer does not match the request")

    /// - Parameter id: the channel to forget if Apple does not know it.
    private func send(_ request: APNsChannelRequest, about id: APNsChannelID? = nil) async throws -> APNsChannelResponse
    {
        do {
            return try await self.access.send(request, in: self.route.environment, redis: self.streams.client)
        } catch let refusal as APNsChannelRefusal {
            guard refusal.word == APNsReason.channelNotRegistered.rawValue else { throw CommandFailure("\(refusal)") }
            if case .delete = request { return .deleted }
            if let id { try await self.noteGone(id) }
            throw CommandFailure("\(refusal)")
        }
    }

    private func note(_ id: APNsChannelID, _ storage: APNsChannelStorage) async throws {
        let route = try await self.streams.routes.number(of: self.route)
        try await self.streams.channels.record(channel: id.text, storesLatest: storage == .latest, of: route)
    }

    private func noteGone(_ id: APNsChannelID) async throws {
        let route = try await self.streams.routes.number(of: self.route)
        try await self.streams.channels.record(goneChannel: id.text, of: route)
    }
}
