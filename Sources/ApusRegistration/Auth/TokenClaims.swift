internal import ApusCore

/// Holds the registered claims of a JWT (RFC 7519 §4.1) that are checked here.
struct TokenClaims: Hashable {
    let subject: String?
    let issuer: String?
    let audiences: [String]
    /// The times are in seconds since 1970.
    let expiresAt: Double?
    let notBefore: Double?

    /// Reads the claims from a payload.
    ///
    /// - Returns: nil when the payload is not a JSON object or a claim has another type than the RFC's.
    init?(payload: [UInt8]) {
        guard let value = try? JSONValue(parsing: payload, bytesMax: payload.count), let object = value.object else {
            return nil
        }
        switch object["aud"] {
        case .none: self.audiences = []
        case .string(let audience)?: self.audiences = [audience]
        case .array(let elements)?:
            let texts = elements.compactMap(\.string)
            guard texts.count == elements.count else { return nil }
            self.audiences = texts
        default: return nil
        }
        guard let subject = Self.optional(object["sub"], \.string), let issuer = Self.optional(object["iss"], \.string),
            let end = Self.optional(object["exp"], \.double), let start = Self.optional(object["nbf"], \.double)
        else { return nil }
        self.subject = subject
        self.issuer = issuer
        self.expiresAt = end
        self.notBefore = start
    }

    /// Checks the claims and returns the user who bears the token.
    func user(_ issuer: AppCredentials.Issuer, now: UnixMilliseconds) throws(AuthenticationFailure) -> UserID {
        let seconds = Double(now.value) / 1_000
        guard self.audiences.contains(issuer.audience) else {
            throw .genuine(.audience, "the token is for another audience")
        }
        if let name = issuer.name, self.issuer != name { throw .genuine(.issuer, "the token is by another issuer") }
        guard let expiresAt else { throw .genuine(.expired, "the token has no exp claim") }
        // RFC 7519 §4.1.4: "on or after which the JWT MUST NOT be accepted", within the leeway.
        guard seconds < expiresAt + issuer.leewaySeconds else { throw .genuine(.expired, "the token has expired") }
        if let notBefore, seconds < notBefore - issuer.leewaySeconds {
            throw .genuine(.notYetValid, "the token is not valid yet")
        }
        guard let subject, let user = try? UserID(subject) else {
            throw .genuine(.subject, "the token's sub claim is not a user id")
        }
        return user
    }

    /// Reads a claim that may be missing, but must not have another type: the outer nil.
    private static func optional<Value>(_ value: JSONValue?, _ read: (JSONValue) -> Value?) -> Value?? {
        guard let value else { return .some(nil) }
        guard let read = read(value) else { return nil }
        return .some(read)
    }
}
