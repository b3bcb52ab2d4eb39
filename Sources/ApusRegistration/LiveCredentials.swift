internal import ApusCore
internal import ApusService
internal import ApusTLS
internal import FoundationEssentials
internal import Logging
internal import Synchronization

/// What is made of key files: who may ask, and who we are. Made anew when a file changes; a bad file changes nothing.
final class LiveCredentials: Sendable {
    private struct State {
        var authenticator: Authenticator
        var tls: TLSContext?
    }

    private let state: Mutex<State>

    /// Reads the files.
    init(_ settings: Settings<RegistrationSettings>) throws {
        self.state = Mutex(try Self.read(settings))
    }

    /// Who may ask.
    var authenticator: Authenticator { self.state.withLock { $0.authenticator } }

    /// Who we are; nil: plain HTTP.
    var tls: TLSContext? { self.state.withLock { $0.tls } }

    /// Follows the configuration until a graceful shutdown.
    func follow(_ updates: AsyncStream<Settings<RegistrationSettings>>, logger: Logger) async {
        for await settings in updates {
            do {
                let new = try Self.read(settings)
                self.state.withLock { state in
                    state.authenticator = new.authenticator
                    // The listener's scheme is fixed at the start.
                    if state.tls != nil, let tls = new.tls { state.tls = tls }
                }
                logger.notice("credentials read again")
            } catch {
                logger.error("credentials refused, the old ones stay", metadata: ["error": "\(error)"])
            }
        }
    }

    private static func read(_ settings: Settings<RegistrationSettings>) throws -> State {
        State(
            authenticator: try Authenticator(settings.common.apps),
            tls: try settings.own.tls.map { files in
                let identity = try TLSIdentity(
                    certificateChainPEM: try Self.text(files.certificateFile),
                    privateKeyPEM: try Self.text(files.keyFile),
                )
                return try TLSContext.server(identity: identity, alpn: ["http/1.1"])
            },
        )
    }

    private static func text(_ path: String) throws -> String {
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            throw CredentialError(description: "\(path) cannot be read")
        }
    }
}
