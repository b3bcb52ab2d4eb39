package import ApusCore
package import ApusProviders
package import ApusTLS

/// A client certificate for APNs with its key, as PEM or PKCS#12.
///
/// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-certificate-based-connection-to-apns
package struct APNsCertificate: Sendable {
    /// What is shown when connecting.
    package let identity: TLSIdentity
    /// The topics that it serves.
    package let scope: APNsTopicScope
    private let environments: Set<ProviderEnvironment>
    private let topics: [String]

    /// Reads a certificate.
    ///
    /// - Parameters:
    ///   - file: PEM with the chain, and the key unless `key` brings it; or PKCS#12.
    ///   - key: the key in PEM; nil: it stands in `file`.
    ///   - password: of a PKCS#12 file; a line end behind it does not count.
    ///   - topics: the topics that it serves; nil: those that it names.
    package init(file: [UInt8], key: [UInt8]?, password: [UInt8]?, topics: [String]?) throws(ProvidersError) {
        do throws(TLSError) {
            let text = String(decoding: file, as: UTF8.self)
            if text.contains("-----BEGIN") {
                let keyText = key.map { String(decoding: $0, as: UTF8.self) } ?? text
                self.identity = try TLSIdentity(certificateChainPEM: text, privateKeyPEM: keyText)
            } else {
                let secret = String(decoding: password ?? [], as: UTF8.self)
                self.identity = try TLSIdentity(
                    pkcs12: file,
                    password: String(secret.prefix { !$0.isNewline }),
                )
            }
        } catch {
            throw ProvidersError(.unsuitableCertificate, "the certificate cannot be read: \(error)")
        }
        let apple = AppleCertificate(self.identity.certificate)
        self.environments = apple.environments
        self.topics = topics ?? apple.topics
        self.scope = .topics(self.topics)
    }

    /// Until when it is valid.
    package var expiresAt: UnixMilliseconds { self.identity.certificate.notAfter }

    /// Whose it is, for people.
    package var name: String {
        let certificate = self.identity.certificate
        return "certificate \(certificate.commonName ?? certificate.userID ?? "without a name")"
    }

    /// Whether it is for an app in an environment.
    package func check(bundleID: String, environment: ProviderEnvironment) throws(ProvidersError) {
        guard self.topics.contains(where: { $0 == bundleID || $0.hasPrefix(bundleID + ".") }) else {
            throw ProvidersError(
                .unsuitableCertificate,
                "the certificate is for \(self.topics.joined(separator: ", ")), not for \(bundleID)"
            )
        }
        guard self.environments.contains(environment) else {
            throw ProvidersError(
                .unsuitableCertificate,
                "the certificate is not for Apple's \(environment.name) environment: leave that out of environments"
            )
        }
    }
}
