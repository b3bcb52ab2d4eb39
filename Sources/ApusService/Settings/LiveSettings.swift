internal import Synchronization

/// Holds the configuration in force and reads it again while the service runs. An invalid file changes nothing.
public final class LiveSettings<Own: ServiceSettings>: Sendable {
    private struct State {
        var current: Settings<Own>
        /// The files that the last configuration named that was refused as invalid; none since one was accepted.
        var refusedFiles: [String] = []
        /// The files as they were before they were last read.
        var fingerprint: [FileFingerprint]
        var listeners: [Int: AsyncStream<Settings<Own>>.Continuation] = [:]
        var nextListener = 0
        var refusals: [ConfigurationPart: String] = [:]
    }

    /// The parts of a configuration that can be refused after it has changed, each by its own reader.
    public enum ConfigurationPart: CaseIterable, Sendable {
        /// The file, which is invalid.
        case file
        /// The settings that need new parts of the service, which could not start with them.
        case parts
        /// The certificate of the admin endpoints, which cannot be read.
        case adminTLS
        /// The credentials, which cannot be read or which the provider refuses.
        case credentials
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

    /// The reason why former settings or credentials are in use although the configuration has changed; nil when all of it is in use.
    public var refusal: String? {
        let refusals = self.state.withLock { $0.refusals }
        let reasons = ConfigurationPart.allCases.compactMap { refusals[$0] }
        return reasons.isEmpty ? nil : reasons.joined(separator: "; ")
    }

    /// Records that the former state of a part stays in use, or with nil that the part is in use as it is configured.
    public func refuse(_ part: ConfigurationPart, because reason: String?) {
        self.state.withLock { $0.refusals[part] = reason }
    }

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
    public func reload() -> Reload {
        let settings: Settings<Own>
        // A file that changes while it is read is read again.
        let paths = self.watchedFiles
        let before = Dictionary(zip(paths, paths.map(FileFingerprint.init))) { first, _ in first }
        do {
            settings = try self.source.load(Own.self, for: self.service)
        } catch {
            self.state.withLock { state in
                state.refusedFiles = error.files
                state.refusals[.file] = error.sentence
            }
            self.noteFiles(before)
            return .refused(error)
        }
        let listeners = self.state.withLock { state in
            state.current = settings
            state.refusedFiles = []
            state.refusals[.file] = nil
            state.refusals[.parts] = nil
            return Array(state.listeners.values)
        }
        self.noteFiles(before)
        for listener in listeners { listener.yield(settings) }
        return .taken
    }

    /// Ends every stream of updates.
    func finish() {
        let listeners = self.state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.finish() }
    }

    /// Puts former settings in force again, because the changed ones failed. Nobody is notified: their user is made anew.
    func restore(_ settings: Settings<Own>, because reason: String) {
        self.state.withLock { state in
            state.current = settings
            state.refusals[.parts] = reason
        }
    }

    /// The value of ``fingerprint()`` when the settings were last read.
    var fingerprintAtLoad: [FileFingerprint] { self.state.withLock { $0.fingerprint } }

    /// Returns a value that changes when a file behind the settings changes.
    func fingerprint() -> [FileFingerprint] { self.watchedFiles.map(FileFingerprint.init) }

    /// The files behind the settings in force, and behind those that were refused.
    private var watchedFiles: [String] {
        self.state.withLock { [self.source.file].compactMap(\.self) + $0.current.files + $0.refusedFiles }
    }

    /// Records how the files were before they were read; those that were not known then, as they are.
    private func noteFiles(_ before: [String: FileFingerprint]) {
        let fingerprint = self.watchedFiles.map { before[$0] ?? FileFingerprint(path: $0) }
        self.state.withLock { $0.fingerprint = fingerprint }
    }
}
