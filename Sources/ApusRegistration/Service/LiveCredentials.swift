internal import ApusCore
internal import ApusInstallation
internal import ApusService
internal import ApusTLS
internal import Logging
internal import Synchronization

/// Holds what is read from key files, and from the keys in Redis: the authenticator and our TLS identity. It is read again when a file
/// changes, and when a key is created or revoked; a bad file changes nothing.
final class LiveCredentials: Sendable {
    /// The time within which a new key is known, and a revoked one refused.
    static let keysInterval = Duration.seconds(1)

    private struct State {
        var authenticator: Authenticator
        var tls: TLSContext?
    }

    private let state: Mutex<State>

    /// Reads the files.
    init(_ settings: Settings<RegistrationSettings>) throws {
        self.state = Mutex(try Self.read(settings))
    }

    /// The current authenticator.
    var authenticator: Authenticator { self.state.withLock { $0.authenticator } }

    /// Our current TLS context; nil for plain HTTP.
    var tls: TLSContext? { self.state.withLock { $0.tls } }

    /// Follows the configuration until a graceful shutdown.
    func follow(
        _ updates: AsyncStream<Settings<RegistrationSettings>>,
        of live: LiveSettings<RegistrationSettings>,
        logger: Logger,
    ) async {
        for await settings in updates {
            do {
                let new = try Self.read(settings)
                live.refuse(.credentials, because: nil)
                self.state.withLock { state in
                    state.authenticator = new.authenticator.withStoredKeys(of: state.authenticator)
                    // The listener's scheme is fixed at the start.
                    if state.tls != nil, let tls = new.tls { state.tls = tls }
                }
                logger.notice("credentials were reloaded")
            } catch {
                live.refuse(.credentials, because: "\(error)")
                logger.error("new credentials were refused: the old ones stay in use", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Reads the keys in Redis.
    func readKeys(_ keys: APIKeys) async throws {
        let apps = self.authenticator.appIDs
        let read = try await withThrowingTaskGroup(of: (AppID, [AppCredentials.Key]).self) { group in
            for app in apps {
                group.addTask {
                    let stored = try await keys.list(app)
                    return (app, stored.map { AppCredentials.Key(name: $0.name, sha256: $0.sha256, role: $0.role) })
                }
            }
            var read: [AppID: [AppCredentials.Key]] = [:]
            for try await (app, keys) in group { read[app] = keys }
            return read
        }
        self.state.withLock { $0.authenticator = $0.authenticator.with(storedKeys: read) }
    }

    /// Follows the keys in Redis until it is cancelled. While Redis is away the last ones stay, because without Redis nobody can use them
    /// for anything.
    func follow(_ keys: APIKeys, logger: Logger) async {
        var isReadable = true
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.keysInterval)
            do {
                try await self.readKeys(keys)
                isReadable = true
            } catch {
                if isReadable, !Task.isCancelled {
                    logger.warning("the API keys in Redis cannot be read", metadata: ["error": "\(error)"])
                }
                isReadable = false
            }
        }
    }

    private static func read(_ settings: Settings<RegistrationSettings>) throws -> State {
        State(
            authenticator: try Authenticator(settings.common.apps),
            tls: try settings.own.tls?.context(for: RegistrationSettings.tlsKey),
        )
    }
}
