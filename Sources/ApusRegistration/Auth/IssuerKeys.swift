internal import ApusCore
package import ApusTLS

/// Describes why a key set cannot be used, without its content.
package struct KeySetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String
}

/// Holds the keys that verify an identity provider's signatures: one key, or a set from which a token chooses by `kid`. All are of the
/// configured algorithm's kind, so whichever key a token names, the algorithm stays the configured one.
package struct IssuerKeys: Sendable {
    /// The maximum of bytes of a key set.
    static let keySetBytesMax = 256 * 1_024
    /// The maximum of keys of a key set.
    package static let countMax = 100

    private let named: [String: VerificationKey]
    /// The key for tokens without `kid`, and for every token when it is the only key.
    private let only: VerificationKey?
    private let isSet: Bool

    /// Creates a set of one key, for tokens with any `kid`.
    package init(_ key: VerificationKey) {
        self.named = [:]
        self.only = key
        self.isSet = false
    }

    /// Reads the keys of a JSON Web Key Set (RFC 7517 §5).
    ///
    /// Keys of another kind, for encryption (`use`) or for another algorithm (`alg`) are left out, as §5 says; so are those without `kid`,
    /// unless it is the only one.
    package init(keySet bytes: [UInt8], for algorithm: JWSAlgorithm) throws(KeySetError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: bytes, bytesMax: Self.keySetBytesMax)
        } catch {
            throw KeySetError(description: "\(error)")
        }
        guard let members = value["keys"]?.array else { throw KeySetError(description: "there is no member \"keys\"") }
        guard members.count <= Self.countMax else {
            throw KeySetError(description: "it has more than \(Self.countMax) keys")
        }
        var named: [String: VerificationKey] = [:]
        var usable: [VerificationKey] = []
        for (index, member) in members.enumerated() where Self.isMeant(member, for: algorithm) {
            let key: PublicKey
            do throws(TLSError) {
                key = try Self.key(member, algorithm)
            } catch {
                throw KeySetError(description: "keys[\(index)] is not a key for \(algorithm.rawValue): \(error)")
            }
            usable.append(.publicKey(key))
            guard let name = member["kid"]?.string else { continue }
            guard named.updateValue(.publicKey(key), forKey: name) == nil else {
                throw KeySetError(description: "keys[\(index)] has the kid of another")
            }
        }
        guard !usable.isEmpty else { throw KeySetError(description: "it has no key for \(algorithm.rawValue)") }
        guard usable.count == 1 || !named.isEmpty else {
            let description = "it has several keys for \(algorithm.rawValue), none of them with a kid"
            throw KeySetError(description: description)
        }
        self.named = named
        self.only = usable.count == 1 ? usable.first : nil
        self.isSet = true
    }

    /// Returns the key for a token; nil when the token names none of ours.
    func key(for token: String) throws(TLSError) -> VerificationKey? {
        guard self.isSet else { return self.only }
        guard let name = try JWS.unverifiedHeader(of: token).keyID else { return self.only }
        // A single key without a name serves every token.
        return self.named[name] ?? (self.named.isEmpty ? self.only : nil)
    }

    private static func isMeant(_ key: JSONValue, for algorithm: JWSAlgorithm) -> Bool {
        if let use = key["use"], use.string != "sig" { return false }
        if let name = key["alg"], name.string != algorithm.rawValue { return false }
        return switch algorithm {
        case .es256: key["kty"]?.string == "EC" && key["crv"]?.string == "P-256"
        case .rs256: key["kty"]?.string == "RSA"
        case .hs256: false
        }
    }

    private static func key(_ key: JSONValue, _ algorithm: JWSAlgorithm) throws(TLSError) -> PublicKey {
        func bytes(_ name: String) -> [UInt8] { key[name]?.string.flatMap { Base64URL.decode($0) } ?? [] }
        return algorithm == .es256
            ? try PublicKey(x: bytes("x"), y: bytes("y"))
            : try PublicKey(modulus: bytes("n"), exponent: bytes("e"))
    }
}
