internal import Synchronization

/// Holds the newest valid settings, those that the running parts use, and what keeps them apart. The configuration is read again while the
/// service runs. An invalid file changes nothing.
public final class LiveSettings<Own: ServiceSettings>: Sendable {
    private struct State {
        var current: Settings<Own>
        var inForce: Settings<Own>
        var failure: (any Error)?
        var failureCount = 0
        /// The files of a configuration that was refused as invalid, or with which parts failed; none since one was accepted.
        var refusedFiles: [String] = []
        /// The files as they were before they were last read, by path.
        var fingerprints: [String: FileFingerprint]
        /// The files as they were at the last look.
        var seenFingerprints: [String: FileFingerprint] = [:]
        var listeners: [Int: AsyncStream<Settings<Own>>.Continuation] = [:]
        var nextListener = 0
        var refusals: [ConfigurationPart: String] = [:]
    }

    /// The parts of a configuration that can be refused after it has changed, each by its own reader.
    enum ConfigurationPart: CaseIterable {
        /// The file, which is invalid.
        case file
        /// The settings that need new parts of the service, which could not start with them.
        case parts
        /// The certificate of the admin endpoints, which cannot be read.
        case adminTLS
        /// The credentials, which cannot be read or which the provider refuses.
        case credentials
    }

    /// The results of a look at the files.
    enum FileChange {
        /// The files are as they were when they were last read.
        case unchanged
        /// A file has changed, also since the last look: it may still be written.
        case unfinished
        /// A file has changed, but none since the last look.
        case changed
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
        let file = Self.fingerprints(of: [source.file].compactMap(\.self))
        let settings = try source.load(Own.self, for: service)
        let fingerprints = file.merging(Self.fingerprints(of: settings.files)) { first, _ in first }
        self.state = Mutex(State(current: settings, inForce: settings, fingerprints: fingerprints))
    }

    /// The newest valid settings: running parts read from them what they take over, and new ones are made with them.
    public var current: Settings<Own> { self.state.withLock { $0.current } }

    /// The settings that the running parts use as a whole: those that they were made with, and what they have taken over since.
    var inForce: Settings<Own> {
        get { self.state.withLock { $0.inForce } }
        set { self.state.withLock { $0.inForce = newValue } }
    }

    /// The error of the parts that were made with the newest settings, because of which former ones are current; nil since others were accepted.
    var failure: (any Error)? { self.state.withLock { $0.failure } }

    /// The number of times that parts have failed with newer settings since some were ready with such.
    var failureCount: Int { self.state.withLock { $0.failureCount } }

    /// Records that parts are ready that were made with the newest settings.
    func noteReady() { self.state.withLock { $0.failureCount = 0 } }

    /// The reason why former settings or credentials are in use although the configuration has changed; nil when all of it is in use.
    public var refusal: String? {
        let refusals = self.state.withLock { $0.refusals }
        let reasons = ConfigurationPart.allCases.compactMap { refusals[$0] }
        return reasons.isEmpty ? nil : reasons.joined(separator: "; ")
    }

    /// Records that the former state of a part stays in use, or with nil that the part is in use as it is configured.
    func refuse(_ part: ConfigurationPart, because reason: String?) {
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
        let before = Self.fingerprints(of: self.watchedFiles)
        do {
            settings = try self.loadAgain()
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
            state.failure = nil
            state.refusedFiles = []
            state.refusals[.file] = nil
            return Array(state.listeners.values)
        }
        self.noteFiles(before)
        for listener in listeners { listener.yield(settings) }
        return .taken
    }

    /// Reads the configuration again for a service that runs. A file that is cut or emptied while it is written is valid, so one that has lost
    /// all of its entries, its apps or the keys of records is refused.
    private func loadAgain() throws(SettingsError) -> Settings<Own> {
        let former = self.current
        let settings = try self.source.load(Own.self, for: self.service)
        let lost: String
        if settings.isFileEmpty, !former.isFileEmpty {
            lost = "entries"
        } else if settings.common.apps.isEmpty, !former.common.apps.isEmpty {
            lost = "apps"
        } else if settings.common.store.encryptionKeys.isEmpty, !former.common.store.encryptionKeys.isEmpty {
            // Records would be written in the clear.
            lost = "keys of records (store.encryption_key_file)"
        } else {
            return settings
        }
        let message = "has lost all of its \(lost): write them again, or restart the service if it is to go on without"
        let issue = SettingsIssue(key: "", place: self.source.file, message: message)
        throw SettingsError(issues: [issue], files: settings.files)
    }

    /// Ends every stream of updates.
    func finish() {
        let listeners = self.state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.finish() }
    }

    /// Makes former settings current again, because parts failed with newer ones. Nobody is notified: their users are made anew.
    ///
    /// - Parameter hasNewest: true when others were read since those parts were made. They have not failed, and are read again.
    func restore(_ settings: Settings<Own>, after failure: any Error, hasNewest: Bool = false) {
        let before = self.state.withLock { state in
            var settings = settings
            // No part fails because of these, and records may be encrypted with the newest keys already.
            settings.common.store = state.current.common.store
            settings.common.log = state.current.common.log
            state.refusedFiles += state.current.files
            state.current = settings
            state.failure = failure
            state.failureCount += 1
            state.refusals[.parts] = "\(failure)"
            return state.fingerprints
        }
        if hasNewest { self.state.withLock { $0.fingerprints = [:] } } else { self.noteFiles(before) }
    }

    /// Looks whether a file behind the settings, or behind those that were refused, has changed since it was last read.
    func lookForChange() -> FileChange {
        let found = Self.fingerprints(of: self.watchedFiles)
        return self.state.withLock { state in
            defer { state.seenFingerprints = found }
            guard found != state.fingerprints else { return .unchanged }
            return found == state.seenFingerprints ? .changed : .unfinished
        }
    }

    /// The files behind the current settings, and behind those that were refused.
    private var watchedFiles: [String] {
        self.state.withLock { [self.source.file].compactMap(\.self) + $0.current.files + $0.refusedFiles }
    }

    private static func fingerprints(of paths: [String]) -> [String: FileFingerprint] {
        Dictionary(paths.map { ($0, FileFingerprint(path: $0)) }) { first, _ in first }
    }

    /// Records how the files were before they were read; those that were not known then, as they are.
    private func noteFiles(_ before: [String: FileFingerprint]) {
        var fingerprints = Self.fingerprints(of: self.watchedFiles)
        for path in fingerprints.keys { if let known = before[path] { fingerprints[path] = known } }
        self.state.withLock { [fingerprints] in $0.fingerprints = fingerprints }
    }
}
