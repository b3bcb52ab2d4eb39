package import ApusTLS

/// Reports why a credential cannot be used. The message contains no secret.
package struct ProvidersError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of faults.
    package enum Code: String, CaseIterable, Sendable {
        /// A key id, team id or project id that does not follow its grammar.
        case invalidIdentifier = "invalid_identifier"
        /// A key that is not PEM, is encrypted, or contradicts itself.
        case unreadableKey = "unreadable_key"
        /// A key of another kind than the provider takes.
        case unsuitableKey = "unsuitable_key"
        /// A certificate that cannot be read, or is for something else.
        case unsuitableCertificate = "unsuitable_certificate"
        /// Not a service account's JSON.
        case malformedServiceAccount = "malformed_service_account"
        /// The key is valid and yet failed to sign.
        case signingFailed = "signing_failed"
    }

    /// The kind of fault.
    package let code: Code
    /// A sentence for the operator.
    package let message: String

    /// Creates an error.
    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The error's sentence.
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
