internal import Synchronization

/// The configuration in force, read again while the service runs. A bad file changes nothing.
public final class LiveSettings<Own: ServiceSettings>: Sendable {
    private struct State {
        var current: Settings<Own>
        var listeners: [Int: AsyncStream<Settings<Own>>.Continuation] = [:]
        var nextListener = 0
    }

    /// The result of a reload.
    public enum Reload: Sendable, Hashable {
        /// Taken over. Files that the settings name may have changed even where the settings are the same.
        case taken
        /// Refused; the old settings stay.
        case refused(SettingsError)
    }

    /// Where the settings come from.
    public let source: SettingsSource
    /// Whose they are.
    public let service: ServiceName
    private let state: Mutex<State>

    /// Reads for the first time.
    public init(_ source: SettingsSource, for service: ServiceName) throws(SettingsError) {
        self.source = source
        self.service = service
        self.state = Mutex(State(current: try source.load(Own.self, for: service)))
    }

    /// The settings in force.
    public var current: Settings<Own> { self.state.withLock { $0.current } }

    /// Every later configuration as it is taken over; a slow reader sees only the newest.
    public func updates() -> AsyncStream<Settings<Own>> {
        let (stream, continuation) = AsyncStream<Settings<Own>>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = self.state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = continuation
            return state.nextListener
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.listeners.removeValue(forKey: number) }
        }
        return stream
    }

    /// Reads again; takes over only what is valid as a whole.
    ///
    /// - Parameter announce: called when it was taken over, before those who follow the updates.
    public func reload(announcing announce: () -> Void = {}) -> Reload {
        let settings: Settings<Own>
        do {
            settings = try self.source.load(Own.self, for: self.service)
        } catch {
            return .refused(error)
        }
        let listeners = self.state.withLock { state in
            state.current = settings
            return Array(state.listeners.values)
        }
        announce()
        for listener in listeners { listener.yield(settings) }
        return .taken
    }

    /// Ends every stream of updates.
    func finish() {
        let listeners = self.state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.finish() }
    }

    /// Changes when a file behind the settings does.
    func fingerprint() -> [FileFingerprint] {
        ([self.source.file].compactMap(\.self) + self.current.files).map(FileFingerprint.init)
    }
}
