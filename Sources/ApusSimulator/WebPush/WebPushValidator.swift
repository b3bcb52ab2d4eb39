package import ApusCore
internal import ApusTLS
internal import Synchronization

/// Validates requests like the push services, each by its own rules where they differ, and decrypts what it is sent.
///
/// Pure: the time and the behaviors of tokens are arguments.
package struct WebPushValidator: Sendable {
    /// The maximum bytes of a body.
    static let bodyBytesMax = 4_096
    /// The maximum life of a token in seconds (RFC 8292 §2).
    static let tokenLifeSecondsMax: Int64 = 86_400

    /// The keys with which browsers have subscribed.
    var serverKeys: Set<[UInt8]>
    private let keys = ServerKeys()

    /// Creates a validator of subscriptions with the given keys.
    package init(serverKeys: Set<[UInt8]>) { self.serverKeys = serverKeys }

    /// Returns what a ``SimulatedBrowser`` reads; nil when the body was not encrypted for it, empty when there is none.
    package static func content(of request: ProviderRequest) -> [UInt8]? {
        guard !request.body.isEmpty, request.body.count <= Self.bodyBytesMax else { return [] }
        return SimulatedBrowser(path: request.path).decrypt(request.body)
    }

    /// Returns the answer to a request.
    ///
    /// - Parameters:
    ///   - isReadable: false when the body was not encrypted for its browser.
    ///   - key: the key to which the subscription is bound; nil when any of ``serverKeys`` may be the first.
    package func validate(
        _ request: ProviderRequest,
        isReadable: Bool,
        boundTo key: [UInt8]? = nil,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        number: UInt64,
    ) -> ProviderAnswer {
        guard let service = SimulatedBrowser.Service(host: request.authority) else {
            return ProviderAnswer(status: 404).explained("\(request.authority) is no simulated push service")
        }
        do throws(WebPushRefusal) {
            guard request.method == "POST" else { throw .notPOST }
            try Self.checkHeaders(request, service)
            try self.authorize(request, boundTo: key, now: now)
            let digest = TokenDigest(request.path, provider: .webpush)
            switch behaviors.behavior(of: digest, now: now) {
            case .dead: throw .gone
            case .expired, .bad: throw .unknown
            case .foreign: throw .otherKey
            case .alive, nil: break
            }
            guard request.body.count <= Self.bodyBytesMax else { throw .tooLarge }
            guard isReadable else { throw .undecipherable }
            return Self.accepted(service, request, number: number)
        } catch {
            return error.answer(of: service)
        }
    }

    private static func accepted(
        _ service: SimulatedBrowser.Service,
        _ request: ProviderRequest,
        number: UInt64,
    ) -> ProviderAnswer {
        var headers = [ProviderHeader("ttl", request.first("ttl") ?? "")]
        headers.append(ProviderHeader("location", "https://\(request.authority)/m/\(number)"))
        if service == .microsoft {
            headers += ["x-wns-status", "x-wns-notificationstatus"].map { ProviderHeader($0, "received") }
        }
        if service == .apple { headers.append(ProviderHeader("apns-id", UUIDText.messageID(number))) }
        return ProviderAnswer(status: 201, headers: headers)
    }

    private static func checkHeaders(
        _ request: ProviderRequest,
        _ service: SimulatedBrowser.Service,
    ) throws(WebPushRefusal) {
        guard let ttl = request.first("ttl") else { throw .missingTTL }
        guard let seconds = Int64(ttl), seconds >= 0, ttl.utf8.first != 0x2b else { throw .badTTL }
        // This service takes no message that it may not store.
        if service == .apple, seconds == 0 { throw .badTTL }
        if let urgency = request.first("urgency"), !["very-low", "low", "normal", "high"].contains(urgency) {
            throw .badUrgency
        }
        if let topic = request.first("topic") {
            guard (1...32).contains(topic.utf8.count), topic.utf8.allSatisfy(Self.isTopicByte) else { throw .badTopic }
            // This service decodes it.
            if service == .apple, Base64URL.decode(topic) == nil { throw .badTopic }
        }
        if !request.body.isEmpty {
            guard request.first("content-encoding") == "aes128gcm" else { throw .badEncoding }
        }
        if let length = request.first("content-length"), Int(length) != request.body.count { throw .badEncoding }
        guard service == .microsoft else { return }
        let policy = request.first("x-wns-cache-policy")
        guard policy == nil ? seconds > 0 : policy == (seconds > 0 ? "cache" : "no-cache") else { throw .cachePolicy }
    }

    private static func isTopicByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x5f: true
        default: false
        }
    }

    /// Checks the token (RFC 8292 §3 and §4): its signature, audience, life and subject, and the key of the subscription.
    private func authorize(
        _ request: ProviderRequest,
        boundTo bound: [UInt8]?,
        now: UnixMilliseconds,
    ) throws(WebPushRefusal) {
        guard let header = request.first("authorization") else { throw .missingAuthorization }
        let (scheme, parameters) = Self.parts(of: header)
        guard scheme == "vapid", let token = parameters["t"], let key = parameters["k"] else { throw .badToken }
        guard let point = Base64URL.decode(key), !key.hasSuffix("="),
            let publicKey = self.keys.key(of: point),
            let contents = try? JWS.verify(token, algorithm: .es256, key: .publicKey(publicKey)),
            let claims = try? JSONValue(parsing: contents.payload, bytesMax: JWS.tokenBytesMax)
        else { throw .badToken }
        guard claims["aud"]?.string == "https://\(request.authority)", let expiry = claims["exp"]?.int64,
            expiry > now.seconds, expiry <= now.seconds + Self.tokenLifeSecondsMax,
            let subject = claims["sub"]?.string, Self.isSubject(subject)
        else { throw .badToken }
        guard bound.map({ $0 == point }) ?? self.serverKeys.contains(point) else { throw .otherKey }
    }

    /// Returns the public point of the key by which a valid request was signed.
    static func key(of request: ProviderRequest) -> [UInt8]? {
        Self.parts(of: request.first("authorization") ?? "").parameters["k"].flatMap { Base64URL.decode($0) }
    }

    private static func parts(of header: String) -> (scheme: String, parameters: [String: String]) {
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { return ("", [:]) }
        var parameters: [String: String] = [:]
        for part in parts[1].split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard pair.count == 2 else { continue }
            parameters[pair[0].filter { $0 != " " }] = String(pair[1].filter { $0 != " " })
        }
        return (parts[0].lowercased(), parameters)
    }

    private static func isSubject(_ subject: String) -> Bool {
        (subject.hasPrefix("mailto:") || subject.hasPrefix("https://")) && !subject.contains(" ")
            && !subject.contains("<") && !subject.contains("localhost")
    }
}

/// Keeps the keys by which requests are signed: reading one takes as long as all the rest of a request, and most of them have the same.
private final class ServerKeys: Sendable {
    /// The maximum number of keys that are kept.
    private static let countMax = 100

    private let keys = Mutex<[[UInt8]: PublicKey]>([:])

    /// Returns the key of a point; nil when it is none of the curve's.
    func key(of point: [UInt8]) -> PublicKey? {
        if let known = self.keys.withLock({ $0[point] }) { return known }
        guard let key = try? PublicKey(uncompressedPoint: point) else { return nil }
        self.keys.withLock { keys in
            if keys.count == Self.countMax { keys = [:] }
            keys[point] = key
        }
        return key
    }
}
