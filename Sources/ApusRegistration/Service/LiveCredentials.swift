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
    /// The longest time that the keys of one app are waited for.
    static let readDurationMax = Duration.seconds(1)

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

    /// Reads the files of changed settings, and uses them if all are good.
    func review(_ settings: Settings<RegistrationSettings>, logger: Logger) -> SettingsReview {
        var review = SettingsReview()
        do {
            let new = try Self.read(settings)
            self.state.withLock { state in
                state.authenticator = new.authenticator.withStoredKeys(of: state.authenticator)
                // The listener's scheme is fixed at the start.
                if state.tls != nil, let tls = new.tls { state.tls = tls }
            }
            logger.notice("credentials were reloaded")
        } catch {
            review.refusals = ["\(error)"]
            logger.error("new credentials were refused: the old ones stay in use", metadata: ["error": "\(error)"])
        }
        return review
    }

    /// Reads the keys in Redis. Those of an app that cannot be read stay as they were.
    ///
    /// - Returns: the apps whose keys were not read, each with the reason.
    @discardableResult
    func readKeys(_ keys: APIKeys) async -> [AppID: String] {
        let apps = self.authenticator.appIDs
        return await withTaskGroup(of: (AppID, Result<[AppCredentials.Key], any Error>?).self) { group in
            for app in apps {
                group.addTask {
                    let read = await firstWithin(Self.readDurationMax) {
                        () -> Result<[AppCredentials.Key], any Error> in
                        do {
                            let stored = try await keys.list(app)
                            return .success(stored.map { .init(name: $0.name, sha256: $0.sha256, role: $0.role) })
                        } catch {
                            return .failure(error)
                        }
                    }
                    return (app, read)
                }
            }
            var unread: [AppID: String] = [:]
            for await (app, read) in group {
                switch read {
                case .success(let keys): self.state.withLock { $0.authenticator.setStoredKeys(keys, of: app) }
                case .failure(let error): unread[app] = "\(error)"
                case nil: unread[app] = "no answer within \(Self.readDurationMax)"
                }
            }
            return unread
        }
    }

    /// Follows the keys in Redis until it is cancelled. While the server of an app's keys is away its last ones stay.
    func follow(_ keys: APIKeys, logger: Logger) async {
        var last: Set<AppID> = []
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.keysInterval)
            let unread = await self.readKeys(keys)
            if let first = unread.min(by: { $0.key < $1.key }), !Task.isCancelled, !last.isSuperset(of: unread.keys) {
                let apps = unread.keys.sorted().map { "\($0)" }.joined(separator: ", ")
                let metadata: Logger.Metadata = ["apps": "\(apps)", "error": "\(first.value)"]
                logger.warning("the API keys of apps cannot be read", metadata: metadata)
            }
            last = Set(unread.keys)
        }
    }

    private static func read(_ settings: Settings<RegistrationSettings>) throws -> State {
        State(
            authenticator: try Authenticator(settings.common.apps),
            tls: try settings.own.tls?.context(for: RegistrationSettings.tlsKey),
        )
    }
}
