public import ApusCore
internal import ApusTLS

/// A browser with a subscription at a simulated push service.
///
/// Its keys follow from its endpoint, so the simulator can decrypt what any client sends to it, and whoever knows the
/// endpoint can register it.
public struct SimulatedBrowser: Sendable {
    /// The push services by whose words the simulator answers.
    public enum Service: String, CaseIterable, Sendable {
        /// Google's, of Chrome and its kin.
        case google = "fcm.googleapis.com"
        /// Mozilla's, of Firefox.
        case mozilla = "updates.push.services.mozilla.com"
        /// Apple's, of Safari and of web apps on iOS.
        case apple = "web.push.apple.com"
        /// Microsoft's, of Edge on Windows.
        case microsoft = "wns2-par02p.notify.windows.com"

        /// Returns the service of a host; nil for others.
        init?(host: String) {
            let match = Self.allCases.first { service in
                host == service.rawValue || host.hasSuffix("." + service.domain)
            }
            guard let match else { return nil }
            self = match
        }

        /// The domain under which its hosts are.
        private var domain: String { self.rawValue.split(separator: ".").dropFirst().joined(separator: ".") }

        /// The path before the browser's own part.
        private var prefix: String {
            switch self {
            case .google: "/fcm/send/"
            case .mozilla: "/wpush/v2/"
            case .apple: "/"
            case .microsoft: "/w/?token="
            }
        }

        /// Returns the endpoint of a browser with the given name.
        public func endpoint(_ name: String) -> String { "https://\(self.rawValue)\(self.prefix)\(name)" }
    }

    /// The endpoint.
    public let endpoint: String
    private let privateKey: [UInt8]
    /// The public half of its key: 65 bytes.
    private let point: [UInt8]
    private let secret: [UInt8]

    /// Creates the browser of an endpoint.
    public init(endpoint: String) { self.init(path: Self.path(of: endpoint), endpoint: endpoint) }

    /// Creates the browser of a path at any of the services.
    init(path: String, endpoint: String = "") {
        self.endpoint = endpoint
        let privateKey = SHA256.hash(utf8: "apus simulated browser key \(path)")
        let secret = SHA256.hash(utf8: "apus simulated browser secret \(path)").prefix(16)
        // One of 2³² numbers of 32 bytes is none of the curve's.
        guard let point = EphemeralAgreement.publicPoint(ofPrivateKey: privateKey) else {
            preconditionFailure("the browser of \(path) has no key: choose another name")
        }
        (self.privateKey, self.point, self.secret) = (privateKey, point, Array(secret))
    }

    /// Creates a browser with given keys, for tests of published vectors.
    ///
    /// - Returns: nil when the private key is none of the curve's.
    package init?(privateKey: [UInt8], secret: [UInt8]) {
        guard let point = EphemeralAgreement.publicPoint(ofPrivateKey: privateKey) else { return nil }
        self.endpoint = ""
        (self.privateKey, self.point, self.secret) = (privateKey, point, secret)
    }

    /// Returns the path of an endpoint, which stands for the browser in tables and in the ledger.
    static func path(of endpoint: String) -> String { WebAddress(https: endpoint)?.path ?? endpoint }

    /// The public key, `p256dh`, in base64url.
    public var p256dh: String { Base64URL.encode(self.point) }
    /// The secret, `auth`, in base64url.
    public var auth: String { Base64URL.encode(self.secret) }

    /// The subscription as `PushSubscription.toJSON()` gives it.
    public var subscription: JSONValue {
        [
            "endpoint": .string(self.endpoint), "expirationTime": nil,
            "keys": ["p256dh": .string(self.p256dh), "auth": .string(self.auth)],
        ]
    }

    /// Returns the content of a message; nil when it was not encrypted for this browser (RFC 8291 §4).
    public func decrypt(_ body: [UInt8]) -> [UInt8]? {
        guard let header = ContentHeader(body),
            let agreement = try? EphemeralAgreement(with: header.keyID, privateKey: self.privateKey)
        else { return nil }
        let combined = HMACSHA256.authenticate(agreement.secret, key: self.secret)
        let info = Array("WebPush: info\0".utf8) + self.point + header.keyID + [1]
        return header.open(body, with: HMACSHA256.authenticate(info, key: combined))
    }
}

/// The header of a body with the content coding `aes128gcm` (RFC 8188 §2.1).
struct ContentHeader {
    let salt: [UInt8]
    let recordBytes: Int
    let keyID: [UInt8]

    /// Parses the header; nil when the body is shorter, or its records are too short to hold anything.
    init?(_ body: [UInt8]) {
        guard body.count >= 21, body.count >= 21 + Int(body[20]) else { return nil }
        self.salt = Array(body[..<16])
        self.recordBytes = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
        self.keyID = Array(body[21..<21 + Int(body[20])])
        guard self.recordBytes >= 18 else { return nil }
    }

    /// Returns the content of all records; nil when one was altered, or the last one is missing.
    func open(_ body: [UInt8], with keyingMaterial: [UInt8]) -> [UInt8]? {
        let pseudorandomKey = HMACSHA256.authenticate(keyingMaterial, key: self.salt)
        func expand(_ info: String, _ count: Int) -> [UInt8] {
            Array(
                HMACSHA256.authenticate(Array("Content-Encoding: \(info)\0".utf8) + [1], key: pseudorandomKey).prefix(
                    count
                )
            )
        }
        let (key, nonce) = (expand("aes128gcm", AES128GCM.keyBytes), expand("nonce", AES128GCM.nonceBytes))
        var content: [UInt8] = []
        var rest = body.dropFirst(21 + self.keyID.count)
        var number: UInt64 = 0
        while !rest.isEmpty {
            let record = Array(rest.prefix(self.recordBytes))
            rest = rest.dropFirst(self.recordBytes)
            var own = nonce
            for index in 0..<8 { own[4 + index] ^= UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * index)) }
            guard let padded = try? AES128GCM.open(record, key: key, nonce: own),
                let end = padded.lastIndex(where: { $0 != 0 }), padded[end] == (rest.isEmpty ? 2 : 1)
            else { return nil }
            content += padded[..<end]
            number += 1
        }
        return number > 0 ? content : nil
    }
}
