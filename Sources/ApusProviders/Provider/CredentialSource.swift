package import ApusCore
package import ApusService
package import ApusTLS
internal import FoundationEssentials
package import Logging
package import NIOCore

/// The kinds of credentials, for metrics.
package enum CredentialKind: Int, CaseIterable, Hashable, Sendable {
    /// A signed provider token.
    case jwt
    /// An access token.
    case oauth
    /// A client certificate.
    case certificate
}

/// Identifies a credential: two with equal identities are the same.
package struct CredentialIdentity: Hashable, Sendable {
    package let names: [String]
    package let secret: [UInt8]

    /// Creates an identity.
    package init(names: [String], secret: [UInt8]) {
        self.names = names
        self.secret = secret
    }
}

/// The settings and file contents from which a route's gateways are made. Equal sources make equal gateways.
package protocol CredentialSource: Hashable, Sendable {
    /// The credential's identity: routes with the same identity share one credential.
    var identity: CredentialIdentity { get }
    /// The name of the key or account, for people.
    var credentialName: String { get }
    /// The kind of credential that expires.
    var credentialKind: CredentialKind { get }
    /// Says what to correct when the provider refuses the credential, or none can be made, for the given reason; nil when that is not known.
    func cure(of word: String) -> String?
    /// Says what is allowed and probably wrong in the configuration and its files; nil for nothing.
    var doubt: String? { get }
    /// The address, and what the provider knows the app by: topic, project. Gateways cannot take over another one while they run, because
    /// messages are rendered by it.
    var target: [String] { get }
    /// Returns this source with the rate of a known one. Gateways cannot take over another rate while they run, either.
    func keepingRate(of known: Self) -> Self
    /// Creates what the gateways of a route have in common.
    ///
    /// - Parameter shared: the credential already in use for the same key or account; nil for none.
    /// - Throws: `SettingsError` that names the file that cannot be used, and the reason.
    func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration
}

extension CredentialSource {
    /// Knows no cure.
    package func cure(of word: String) -> String? { nil }
    /// Has no doubts.
    package var doubt: String? { nil }
    /// Has no rate.
    package func keepingRate(of known: Self) -> Self { self }

    /// A digest of credential, address, topic and project: a provider's verdict on one configuration does not apply to another.
    package var configurationFingerprint: String {
        var bytes: [UInt8] = []
        for part in self.identity.names + self.target { bytes += Array(part.utf8) + [0] }
        return Hexadecimal.encode(SHA256.hash(bytes + self.identity.secret).prefix(8))
    }

    /// Returns true when both sources are equal.
    package func isEqual(to other: any CredentialSource) -> Bool { (other as? Self) == self }

    /// Returns this source with the rate of a source of the same provider.
    package func keepingRate(ofAny known: any CredentialSource) -> any CredentialSource {
        guard let known = known as? Self else {
            preconditionFailure("the sources of a route belong to different providers")
        }
        return self.keepingRate(of: known)
    }
}

/// Holds what the gateways of a route have in common.
package struct GatewayConfiguration: Sendable {
    /// The gateway to devices and to everything without an address of its own.
    package var gateway: ProviderGatewayConfiguration
    /// The gateway of broadcasts; nil when they share the other one.
    package var broadcasts: ProviderGatewayConfiguration?
    /// The credential that authenticates us to the provider.
    package let credential: any ProviderCredential
    /// The TLS configuration of connections.
    package let tls: TLSContext
    /// The source of this configuration.
    package let source: any CredentialSource
    /// The scope of the credential, in the provider's terms; nil for everything.
    package let scope: (any Sendable)?

    /// Creates a configuration.
    package init(
        gateway: ProviderGatewayConfiguration,
        broadcasts: ProviderGatewayConfiguration? = nil,
        credential: any ProviderCredential,
        tls: TLSContext,
        source: any CredentialSource,
        scope: (any Sendable)? = nil,
    ) {
        self.gateway = gateway
        self.broadcasts = broadcasts
        self.credential = credential
        self.tls = tls
        self.source = source
        self.scope = scope
    }
}

/// Holds the dependencies of credentials and gateways.
package struct GatewayTools: Sendable {
    /// The store of short-lived tokens that processes share; nil for none.
    package let tokens: (any SharedTokenStore)?
    package let clock: any WallClock
    package let eventLoopGroup: any EventLoopGroup
    package let logger: Logger
    /// The threads that make requests to addresses of recipients' own, encrypted for each.
    package let threads: BackgroundThreads
    /// Called with true for each token that was created, and with false for each failed attempt.
    package let minted: @Sendable (Provider, Bool) -> Void

    /// Creates the dependencies.
    package init(
        tokens: (any SharedTokenStore)?,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        threads: BackgroundThreads = .shared,
        minted: @escaping @Sendable (Provider, Bool) -> Void = { _, _ in },
    ) {
        self.tokens = tokens
        self.clock = clock
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.threads = threads
        self.minted = minted
    }
}

/// Reads the files of credentials, with errors that name the setting.
package enum CredentialFile {
    /// Returns the contents of a file.
    package static func read(_ key: String, _ path: String) throws(SettingsError) -> [UInt8] {
        do {
            return Array(try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(SystemErrorText.reason(for: path, error))")
        }
    }

    /// Returns the contents of a file; nil when the setting names none.
    package static func readIfNamed(_ key: String, _ path: String?) throws(SettingsError) -> [UInt8]? {
        guard let path else { return nil }
        return try Self.read(key, path)
    }

    /// Creates a value from a file's contents.
    package static func using<Made>(_ key: String, _ path: String, _ make: () throws -> Made) throws -> Made {
        do {
            return try make()
        } catch let error as SettingsError {
            throw error
        } catch let error as TLSError {
            throw SettingsError(key: key, "cannot be used: \(path): \(error.message)")
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    /// Creates a value, and reads what else there is when that fails: all that is wrong is told at once.
    ///
    /// - Throws: `SettingsError` with the mistakes of both.
    package static func making<Made>(_ make: () throws -> Made, elseReading rest: () throws -> Void) throws -> Made {
        do {
            return try make()
        } catch let error as SettingsError {
            do {
                try rest()
            } catch let other as SettingsError {
                throw SettingsError(issues: error.issues + other.issues)
            }
            throw error
        }
    }

    /// Creates the TLS configuration of connections to a provider.
    ///
    /// - Parameters:
    ///   - caFile: the path of the CA certificates that the provider's certificate is verified with; nil for the system's.
    ///   - identity: the client certificate; nil for none.
    ///   - allowsHTTP1: true when HTTP/1.1 will do where there is no HTTP/2.
    package static func tls(
        _ caFile: String?,
        _ key: String,
        _ identity: TLSIdentity? = nil,
        allowsHTTP1: Bool = false,
    ) throws -> TLSContext {
        do {
            let trust = caFile.map { TLSTrust.file($0) } ?? .system
            let protocols = allowsHTTP1 ? ["h2", "http/1.1"] : ["h2"]
            return try TLSContext.client(trust: trust, certificate: identity, alpn: protocols)
        } catch {
            throw SettingsError(key: key, "cannot be used: \(error)")
        }
    }
}

extension SettingsError {
    /// Creates the error of one mistake that shows only when a file is used.
    package init(key: String, _ message: String) {
        self.init(issues: [SettingsIssue(key: key, place: nil, message: message)])
    }
}
