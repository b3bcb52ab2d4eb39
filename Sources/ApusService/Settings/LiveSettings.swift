internal import Synchronization

/// Holds the configuration in force and reads it again while the service runs. An invalid file changes nothing.
public final class LiveSettings<Own: ServiceSettings>: Sendable {
    private struct State {
        var current: Settings<Own>
        /// The files as they were before they were last read.
        var fingerprint: [FileFingerprint]
        var listeners: [Int: AsyncStream<Settings<Own>>.Continuation] = [:]
        var nextListener = 0
    }

    /// The results of a reload.
    public enum Reload: Sendable, Hashable {
        /// The configuration was accepted. Files that the settings name may have changed even where the settings are the same.
        case taken
        /// The configuration was refused; the old settings stay in force.
        case refused(SettingsError)
    }

    /// The source of the settings.
    public let source: SettingsSource
    /// The service that the settings are for.
    public let service: ServiceName
    private let state: Mutex<State>

    /// Reads the configuration for the first time.
    public init(_ source: SettingsSource, for service: ServiceName) throws(SettingsError) {
        self.source = source
        self.service = service
        let file = [source.file].compactMap(\.self).map(FileFingerprint.init)
        let settings = try source.load(Own.self, for: service)
        self.state = Mutex(State(current: settings, fingerprint: file + settings.files.map(FileFingerprint.init)))
    }

    /// The settings in force.
    public var current: Settings<Own> { self.state.withLock { $0.current } }

    /// Streams every later configuration as it is accepted; a slow reader sees only the newest.
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

    /// Reads the configuration again and accepts it only when it is valid as a whole.
    ///
    /// - Parameter announce: called when the configuration is accepted, before the readers of ``updates()`` receive it.
    public func reload(announcing announce: () -> Void = {}) -> Reload {
        let settings: Settings<Own>
        let file = [self.source.file].compactMap(\.self).map(FileFingerprint.init)
        do {
            settings = try self.source.load(Own.self, for: self.service)
        } catch {
            return .refused(error)
        }
        let listeners = self.state.withLock { state in
            state.current = settings
            state.fingerprint = file + settings.files.map(FileFingerprint.init)
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

    /// Puts former settings in force again, with which nobody is notified: their user is made anew.
    func restore(_ settings: Settings<Own>) { self.state.withLock { $0.current = settings } }

    /// The value of ``fingerprint()`` when the settings were last read.
    var fingerprintAtLoad: [FileFingerprint] { self.state.withLock { $0.fingerprint } }

    /// Returns a value that changes when a file behind the settings changes.
    func fingerprint() -> [FileFingerprint] {
        ([self.source.file].compactMap(\.self) + self.current.files).map(FileFingerprint.init)
    }
}
