package import ApusCore
internal import ApusTLS

/// Issues and verifies access tokens without storing them: each carries its account and its expiry, authenticated.
package struct AccessTokens: Sendable {
    /// The contents of a token.
    package struct Grant: Hashable, Sendable {
        /// The index of the service account.
        package let account: UInt32
        /// The time at which it expires.
        package let expiresAt: UnixMilliseconds
    }

    /// The beginning of tokens, as in Google's.
    private static let prefix = "ya29.simulated."
    private static let contentBytes = 20
    private static let tagBytes = 16

    private let secret: [UInt8]

    /// Creates an issuer with a secret of 32 bytes.
    package init(secret: [UInt8]) {
        precondition(secret.count == 32, "a secret of 32 bytes authenticates the tokens")
        self.secret = secret
    }

    /// Issues a token; each needs a different `number`.
    package func issue(account: UInt32, number: UInt64, expiresAt: UnixMilliseconds) -> String {
        var content: [UInt8] = []
        for shift in stride(from: 24, through: 0, by: -8) { content.append(UInt8(account >> UInt32(shift) & 0xff)) }
        for word in [UInt64(bitPattern: expiresAt.value), number] {
            for shift in stride(from: 56, through: 0, by: -8) { content.append(UInt8(word >> UInt64(shift) & 0xff)) }
        }
        return Self.prefix + Base64URL.encode(content + self.tag(of: content))
    }

    private func tag(of content: [UInt8]) -> [UInt8] {
        Array(HMACSHA256.authenticate(content, key: self.secret).prefix(Self.tagBytes))
    }

    /// Verifies a token and returns its contents; nil if it was not issued here.
    package func grant(_ token: some StringProtocol) -> Grant? {
        guard token.hasPrefix(Self.prefix) else { return nil }
        guard let bytes = Base64URL.decode(token.dropFirst(Self.prefix.count)) else { return nil }
        guard bytes.count == Self.contentBytes + Self.tagBytes else { return nil }
        let content = Array(bytes.prefix(Self.contentBytes))
        guard ConstantTime.equals(self.tag(of: content), Array(bytes.suffix(Self.tagBytes))) else { return nil }
        let account = content[0..<4].reduce(0) { $0 << 8 | UInt32($1) }
        let expiry = content[4..<12].reduce(0) { $0 << 8 | UInt64($1) }
        return Grant(account: account, expiresAt: UnixMilliseconds(Int64(bitPattern: expiry)))
    }
}
