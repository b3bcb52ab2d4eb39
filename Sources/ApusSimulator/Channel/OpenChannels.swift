internal import NIOCore
internal import Synchronization

/// The channels that have to be closed at the end.
final class OpenChannels: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var isOver = false
    }

    private let state = Mutex(State())

    /// Remembers a channel until it closes by itself. False: it is too late for new ones.
    func add(_ channel: any Channel) -> Bool {
        let isAdded = self.state.withLock { state in
            guard !state.isOver else { return false }
            state.channels[ObjectIdentifier(channel)] = channel
            return true
        }
        guard isAdded else { return false }
        channel.closeFuture.whenComplete { _ in
            _ = self.state.withLock { $0.channels.removeValue(forKey: ObjectIdentifier(channel)) }
        }
        return true
    }

    /// All that are open; none can be added any more.
    func takeAll() -> [any Channel] {
        self.state.withLock { state in
            state.isOver = true
            return Array(state.channels.values)
        }
    }
}
