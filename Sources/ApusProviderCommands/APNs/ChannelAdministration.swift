package import ApusAPNs
internal import ApusCommand
internal import ApusConsole
package import ApusCore
package import ApusInstallation
internal import ApusStreams

/// An app's broadcast channels in one of Apple's environments: Apple is asked, and what it says of a channel is kept where dispatchers
/// look it up before they send.
package struct ChannelAdministration: Sendable {
    private let access: ProviderAccess
    private let streams: SendStreams
    private let route: Route
    private let clock = SystemClock()

    /// Creates the channels of the app that `access` is for.
    package init(_ access: ProviderAccess, _ installation: Installation, environment: ProviderEnvironment) {
        self.access = access
        self.streams = installation.streams
        self.route = Route(app: access.app, provider: .apns, environment: environment)
    }

    /// One of Apple's channels.
    package struct Row: Hashable, Sendable {
        /// Its id.
        package let id: APNsChannelID
        /// How it stores; nil when that is not known here.
        package let storage: APNsChannelStorage?

        /// Creates a channel.
        package init(id: APNsChannelID, storage: APNsChannelStorage?) {
            self.id = id
            self.storage = storage
        }
    }

    /// Makes a channel.
    ///
    /// - Parameter made: told of it at once: whatever fails after that, it is there.
    @discardableResult
    package func create(
        _ storage: APNsChannelStorage,
        made: (APNsChannelID) -> Void = { _ in },
    ) async throws -> APNsChannelID {
        guard case .created(let id) = try await self.ask(.create(storage)) else { throw Self.unexpected }
        made(id)
        try await self.note(id, storage)
        return id
    }

    /// How a channel stores. One that Apple does not know is gone.
    package func show(_ id: APNsChannelID) async throws -> APNsChannelStorage {
        guard case .storage(let storage) = try await self.ask(.read(id), about: id) else { throw Self.unexpected }
        try await self.note(id, storage)
        return storage
    }

    /// Ends a channel. One that Apple does not know is gone.
    package func delete(_ id: APNsChannelID) async throws {
        guard case .deleted = try await self.ask(.delete(id), about: id) else { throw Self.unexpected }
        try await self.noteGone(id)
    }

    /// All channels that Apple has, in its order. What was known of others is forgotten.
    package func list() async throws -> [Row] {
        guard case .channels(let ids) = try await self.ask(.list) else { throw Self.unexpected }
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

    private static let unexpected = CommandFailure("Apple answered another question")

    /// - Parameter id: the channel that is gone if Apple does not know it.
    private func ask(_ question: APNsChannelQuestion, about id: APNsChannelID? = nil) async throws -> APNsChannelReply {
        do {
            return try await self.access.ask(question, in: self.route.environment, redis: self.streams.client)
        } catch let refusal as APNsChannelRefusal {
            if let id, refusal.word == APNsReason.channelNotRegistered.rawValue { try await self.noteGone(id) }
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
