internal import ApusTLS
internal import Glibc
internal import NIOCore
internal import NIOPosix

/// Protects connections with TLS, or not at all. Created once per client, because it reads the trusted certificates.
struct RedisSecurity: Sendable {
    private let context: TLSContext?
    private let serverName: String?
    private let limits: TLSHandler.Limits

    /// - Throws: `tls` when the trusted certificates cannot be read.
    init(_ configuration: RedisConfiguration) throws(RedisError) {
        var limits = TLSHandler.Limits()
        limits.handshakeTimeout = TimeAmount(configuration.connectTimeout)
        // Commands of a connection fail when it is closed. The last bytes of one whose server hangs would wait behind a full socket.
        limits.closeTimeout = .milliseconds(100)
        self.limits = limits
        self.serverName = configuration.tls?.serverName
        guard let tls = configuration.tls else {
            self.context = nil
            return
        }
        do throws(TLSError) {
            let trust = tls.certificateAuthorityFile.map { TLSTrust.file($0) } ?? .system
            self.context = try TLSContext.client(trust: trust)
        } catch {
            throw RedisError(.tls, "the trusted certificates cannot be read: \(error.message)")
        }
    }

    /// Adds the TLS handler in front, when TLS is configured. The certificate must be valid for `host`, unless another name is configured.
    func addHandler(to channel: any Channel, host: String?) throws {
        guard let context = self.context else { return }
        let name = self.serverName ?? host ?? ""
        let handler = try TLSHandler(client: context, serverName: name, limits: self.limits)
        try channel.pipeline.syncOperations.addHandler(handler)
    }
}

extension RedisError {
    /// Converts an error of the channel into its meaning for a command that was sent, or that waits for the handshake.
    init(_ error: any Error) {
        switch error {
        case let error as RedisError:
            self = error
        case let error as TLSError:
            switch error.code {
            // The network is the cause, not the certificates.
            case .closedDuringHandshake, .handshakeTimedOut: self.init(.notConnected, error.explanation)
            // Only an established connection ends like this.
            case .closedWithoutCloseNotify, .closed: self.init(.disconnected, error.message)
            default: self.init(.tls, error.explanation)
            }
        default:
            self.init(.disconnected, Self.reason(of: error))
        }
    }

    /// Returns why a connection could not be made or has ended, in the system's words where it has some.
    private static func reason(of error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            guard let first = error.connectionErrors.first else { return "the name \(error.host) is not found" }
            return Self.reason(of: first.error)
        case let error as IOError: return unsafe String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: return "no answer to an attempt to connect"
        default: return "\(error)"
        }
    }
}
