package import ApusCore
package import ApusProviders
package import ApusTLS

/// Holds a client certificate for APNs with its key, read from PEM or PKCS#12.
///
/// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-certificate-based-connection-to-apns
package struct APNsCertificate: Sendable {
    /// The identity that connections present.
    package let identity: TLSIdentity
    /// The topics that the certificate serves.
    package let scope: APNsTopicScope
    private let environments: Set<ProviderEnvironment>
    private let topics: [String]

    /// Reads a certificate.
    ///
    /// - Parameters:
    ///   - file: PEM with the chain, and the key unless `key` holds it; or PKCS#12.
    ///   - key: the key in PEM; nil when `file` holds it.
    ///   - password: the password of a PKCS#12 file; a line end behind it is ignored.
    ///   - topics: the topics that the certificate serves; nil for those that it names.
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

    /// The end of the certificate's validity.
    package var expiresAt: UnixMilliseconds { self.identity.certificate.notAfter }

    /// The certificate's name, for people.
    package var name: String {
        let certificate = self.identity.certificate
        return "certificate \(certificate.commonName ?? certificate.userID ?? "without a name")"
    }

    /// Throws when the certificate is not for an app in an environment.
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
