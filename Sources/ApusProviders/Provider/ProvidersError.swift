package import ApusTLS

/// Why a credential cannot be used. The message names no secret.
package struct ProvidersError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong.
    package enum Code: String, CaseIterable, Sendable {
        /// A key id, team id or project id that does not follow its grammar.
        case invalidIdentifier = "invalid_identifier"
        /// No PEM, an encrypted one, or a key that contradicts itself.
        case unreadableKey = "unreadable_key"
        /// A key of another kind than the provider takes.
        case unsuitableKey = "unsuitable_key"
        /// A certificate that cannot be read, or is for something else.
        case unsuitableCertificate = "unsuitable_certificate"
        /// Not a service account's JSON.
        case malformedServiceAccount = "malformed_service_account"
        /// The key is good and yet did not sign.
        case signingFailed = "signing_failed"
    }

    /// What is wrong.
    package let code: Code
    /// A sentence for the operator.
    package let message: String

    /// An error.
    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The sentence.
    package var description: String { self.message }
}

extension PrivateKey {
    /// Reads a provider's key, with an error that an operator understands.
    package static func provider(pem: [UInt8]) throws(ProvidersError) -> PrivateKey {
        do throws(TLSError) {
            return try PrivateKey(pemBytes: pem)
        } catch {
            throw ProvidersError(.unreadableKey, "the key cannot be read: \(error)")
        }
    }
}
