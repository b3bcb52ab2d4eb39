package import ApusCore
package import ApusService
package import ApusTLS
internal import FoundationEssentials
package import Logging
package import NIOCore

/// What a credential is, for metrics.
package enum CredentialKind: Int, CaseIterable, Hashable, Sendable {
    /// A signed provider token.
    case jwt
    /// An access token.
    case oauth
    /// A client certificate.
    case certificate
}

/// What makes two credentials the same.
package struct CredentialIdentity: Hashable, Sendable {
    package let names: [String]
    package let secret: [UInt8]

    /// An identity.
    package init(names: [String], secret: [UInt8]) {
        self.names = names
        self.secret = secret
    }
}

/// What the gateways of a route are made from: settings, with the contents of the files that they name. Equal sources make equal gateways.
package protocol CredentialSource: Hashable, Sendable {
    /// Whose credential it is: routes of which it is the same share one.
    var identity: CredentialIdentity { get }
    /// Which key or account, in words.
    var credentialName: String { get }
    /// What expires.
    var credentialKind: CredentialKind { get }
    /// What must stay the same while the process runs, because messages are written and paced by it: topic, project, address and rate.
    var fixedPart: [String] { get }
    /// Takes over the fixed part of what was known before; the rest is as it was.
    func keepingFixedPart(of known: Self) -> Self
    /// Makes what the gateways of a route have in common.
    ///
    /// - Parameter shared: the credential that is in use already for the same key or account; nil: none.
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
    func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration
}

extension CredentialSource {
    /// A digest of credential, address, topic and project: what a provider calls wrong of one configuration may be right in another.
    package var configurationFingerprint: String {
        var bytes: [UInt8] = []
        for part in self.identity.names + self.fixedPart { bytes += Array(part.utf8) + [0] }
        return Hexadecimal.encode(SHA256.hash(bytes + self.identity.secret).prefix(8))
    }

    /// Whether it is the same source.
    package func isEqual(to other: any CredentialSource) -> Bool { (other as? Self) == self }

    /// Takes over the fixed part of a source of the same provider.
    package func keepingFixedPart(ofAny known: any CredentialSource) -> any CredentialSource {
        guard let known = known as? Self else { preconditionFailure("a route keeps its provider") }
        return self.keepingFixedPart(of: known)
    }
}

/// What the gateways of a route have in common.
package struct GatewayConfiguration: Sendable {
    /// To devices, and to whatever has no address of its own.
    package var gateway: ProviderGatewayConfiguration
    /// Where broadcasts go; nil: where the others do.
    package var broadcasts: ProviderGatewayConfiguration?
    /// With what the provider is shown who sends.
    package let credential: any ProviderCredential
    /// How connections are made.
    package let tls: TLSContext
    /// What it was made from.
    package let source: any CredentialSource
    /// What the credential serves, in the words of its provider; nil: everything.
    package let scope: (any Sendable)?

    /// A configuration.
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

/// What credentials and gateways are made with.
package struct GatewayTools: Sendable {
    /// Where processes share short-lived tokens; nil: nowhere.
    package let tokens: (any SharedTokenStore)?
    package let clock: any WallClock
    package let eventLoopGroup: any EventLoopGroup
    package let logger: Logger
    /// Told of each token that was made (true), or asked for in vain.
    package let minted: @Sendable (Provider, Bool) -> Void

    /// Tools.
    package init(
        tokens: (any SharedTokenStore)?,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        minted: @escaping @Sendable (Provider, Bool) -> Void = { _, _ in },
    ) {
        self.tokens = tokens
        self.clock = clock
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.minted = minted
    }
}

/// The files of credentials, with errors that name the setting.
package enum CredentialFile {
    /// The contents of a file.
    package static func read(_ key: String, _ path: String) throws(SettingsError) -> [UInt8] {
        do {
            return Array(try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    /// The contents of a file that need not be named.
    package static func readIfNamed(_ key: String, _ path: String?) throws(SettingsError) -> [UInt8]? {
        guard let path else { return nil }
        return try Self.read(key, path)
    }

    /// Makes something of a file's contents.
    package static func using<Made>(_ key: String, _ path: String, _ make: () throws -> Made) throws -> Made {
        do {
            return try make()
        } catch let error as SettingsError {
            throw error
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    /// How connections to a provider are made.
    ///
    /// - Parameters:
    ///   - caFile: the authority that its certificate must come from; nil: the system's.
    ///   - identity: shown when connecting; nil: nothing.
    package static func tls(
        _ caFile: String?,
        _ key: String,
        _ identity: TLSIdentity? = nil,
    ) throws -> TLSContext {
        do {
            let trust = caFile.map { TLSTrust.file($0) } ?? .system
            return try TLSContext.client(trust: trust, certificate: identity, alpn: ["h2"])
        } catch {
            throw SettingsError(key: key, "cannot be used: \(error)")
        }
    }
}

extension SettingsError {
    /// One mistake that shows only when a file is used.
    package init(key: String, _ message: String) {
        self.init(issues: [SettingsIssue(key: key, place: nil, message: message)])
    }
}
