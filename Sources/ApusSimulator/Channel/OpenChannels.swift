internal import NIOCore
internal import Synchronization

/// The channels that have to be closed at the end, or while their provider takes no connections.
final class OpenChannels: Sendable {
    private struct Open {
        let channel: any Channel
        let route: FaultRoute?
    }

    private struct State {
        var channels: [ObjectIdentifier: Open] = [:]
        /// Providers that take no connections.
        var shut: Set<FaultRoute> = []
        var isOver = false
    }

    private let state = Mutex(State())

    /// Remembers a channel until it closes by itself. False: it is not welcome.
    ///
    /// - Parameter route: whose it is; nil: no provider's.
    func add(_ channel: any Channel, of route: FaultRoute?) -> Bool {
        let isAdded = self.state.withLock { state in
            guard !state.isOver, !(route.map { state.shut.contains($0) } ?? false) else { return false }
            state.channels[ObjectIdentifier(channel)] = Open(channel: channel, route: route)
            return true
        }
        guard isAdded else { return false }
        channel.closeFuture.whenComplete { _ in
            _ = self.state.withLock { $0.channels.removeValue(forKey: ObjectIdentifier(channel)) }
        }
        return true
    }

    /// All of a provider that are open; none can be added until it opens again.
    func shut(_ route: FaultRoute) -> [any Channel] {
        self.state.withLock { state in
            state.shut.insert(route)
            return state.channels.values.filter { $0.route == route }.map(\.channel)
        }
    }

    /// Lets a provider have channels again. False: it had never been shut, or it is too late.
    func open(_ route: FaultRoute) -> Bool {
        self.state.withLock { $0.shut.remove(route) != nil && !$0.isOver }
    }

    /// All that are open; none can be added any more.
    func takeAll() -> [any Channel] {
        self.state.withLock { state in
            state.isOver = true
            return state.channels.values.map(\.channel)
        }
    }
}
