internal import ApusCore

/// The layout of the keys that stand behind the address of a recipient: they are kept together, from the store to the
/// request.
package struct RecipientKeys: Hashable, Sendable {
    /// The recipient's point on P-256.
    package let publicKey: [UInt8]
    /// The secret that the recipient shares with the app's server.
    package let secret: [UInt8]
    /// The public key of the app's server that the recipient is bound to; nil for whichever there is.
    package let serverKey: [UInt8]?

    /// The bytes of all keys together.
    package static let byteCount = 2 * Limits.webpushP256DHBytes + Limits.webpushAuthBytes

    /// Creates the keys of a record or a command; nil unless both that encryption needs are there.
    init?(publicKey: [UInt8], secret: [UInt8], serverKey: [UInt8]) {
        guard publicKey.count == Limits.webpushP256DHBytes, secret.count == Limits.webpushAuthBytes else { return nil }
        self.publicKey = publicKey
        self.secret = secret
        self.serverKey = serverKey.isEmpty ? nil : serverKey
    }

    /// Appends the keys to bytes that an address ends.
    package func append(to bytes: inout [UInt8]) {
        let serverKey = self.serverKey ?? []
        Self.append(publicKey: self.publicKey.span, secret: self.secret.span, serverKey: serverKey.span, to: &bytes)
    }

    /// Appends keys, each of its exact length; an empty `serverKey` stands for none.
    package static func append(
        publicKey: Span<UInt8>,
        secret: Span<UInt8>,
        serverKey: Span<UInt8>,
        to bytes: inout [UInt8],
    ) {
        precondition(publicKey.count == Limits.webpushP256DHBytes && secret.count == Limits.webpushAuthBytes)
        precondition(serverKey.isEmpty || serverKey.count == Limits.webpushP256DHBytes)
        for index in publicKey.indices { bytes.append(publicKey[index]) }
        for index in secret.indices { bytes.append(secret[index]) }
        if serverKey.isEmpty { bytes.append(contentsOf: repeatElement(0, count: Limits.webpushP256DHBytes)) }
        for index in serverKey.indices { bytes.append(serverKey[index]) }
    }

    /// Reads the keys behind an address; nil when the recipient is shorter than they are.
    package init?(of recipient: [UInt8]) {
        guard recipient.count > Self.byteCount else { return nil }
        let start = recipient.count - Self.byteCount
        let secret = start + Limits.webpushP256DHBytes
        let server = secret + Limits.webpushAuthBytes
        self.publicKey = Array(recipient[start..<secret])
        self.secret = Array(recipient[secret..<server])
        self.serverKey = recipient[server] == 0 ? nil : Array(recipient[server...])
    }

    /// Returns the address in front of the keys.
    package static func address(of recipient: [UInt8]) -> ArraySlice<UInt8> { recipient.dropLast(Self.byteCount) }
}

extension Address {
    /// The keys that notifications are encrypted with; nil without them.
    package var recipientKeys: RecipientKeys? {
        RecipientKeys(publicKey: self.webpushP256DH, secret: self.webpushAuth, serverKey: self.applicationServerKey)
    }
}

extension DeviceRecord {
    /// The keys that notifications are encrypted with; nil without them.
    package var recipientKeys: RecipientKeys? {
        RecipientKeys(publicKey: self.webpushP256DH, secret: self.webpushAuth, serverKey: self.applicationServerKey)
    }

    /// Takes the keys of a registration over.
    ///
    /// - Parameters:
    ///   - assumedServerKey: the key of the app's server that counts for a registration that names none.
    ///   - old: the record before, of which the server's key is kept as long as it is the same subscription: it is bound to one key for its
    ///     whole life.
    package mutating func setRecipientKeys(
        of registration: DeviceRegistration,
        assumedServerKey: [UInt8],
        over old: DeviceRecord?,
    ) {
        self.webpushP256DH = registration.webpushP256DH
        self.webpushAuth = registration.webpushAuth
        self.applicationServerKey = registration.applicationServerKey
        guard registration.applicationServerKey.isEmpty, !registration.webpushP256DH.isEmpty else { return }
        let isSame = old.map { $0.token == self.token && $0.webpushP256DH == self.webpushP256DH } ?? false
        guard isSame, let known = old?.applicationServerKey, !known.isEmpty else {
            self.applicationServerKey = assumedServerKey
            return
        }
        self.applicationServerKey = known
    }
}
