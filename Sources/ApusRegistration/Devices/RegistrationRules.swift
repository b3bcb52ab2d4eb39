package import ApusCore
package import ApusMessages
internal import ApusStore
internal import ApusTLS

/// Checks the rules of a registration, and names the place of each breach. The rules are the same for every form of registration.
package enum RegistrationRules {
    /// Returns what is wrong with a registration that comes from no API, in one sentence; nil for nothing.
    ///
    /// - Parameter hosts: whose Web Push endpoints are taken.
    package static func mistake(in registration: DeviceRegistration, hosts: EndpointHosts) -> String? {
        let breaches = Self.breaches(registration, hosts: hosts)
        return breaches.isEmpty
            ? nil : breaches.map { "\($0.pointer.dropFirst(2)) \($0.detail)" }.joined(separator: "; ")
    }

    /// Returns all breaches; empty: it may be stored.
    ///
    /// - Parameter hosts: the hosts whose Web Push endpoints are accepted.
    static func breaches(_ registration: DeviceRegistration, hosts: EndpointHosts) -> [ProblemDetails.Part] {
        var breaches: [ProblemDetails.Part] = []
        func note(_ pointer: String, _ detail: String) { breaches.append(.init(pointer: pointer, detail: detail)) }
        guard Provider.allCases.contains(registration.provider) else {
            return [.init(pointer: "#/provider", detail: "is not known here")]
        }
        do throws(StoreError) {
            _ = try DeviceToken.stored(registration.token, of: registration.provider)
            if registration.provider == .webpush, let breach = hosts.breach(registration.token) {
                note("#/token", breach)
            }
        } catch {
            note("#/token", error.detail)
        }
        if !registration.provider.traits.environments.contains(registration.environment) {
            note("#/environment", "\(registration.provider.name) has no \(registration.environment.name)")
        }
        if let breach = Self.tokenKind(registration.tokenKind, of: registration.provider) {
            note("#/token_kind", breach)
        }
        if let breach = Self.user(registration.user) { note("#/user", breach) }
        breaches += Self.attributes(registration.attributes, at: "#/attributes")
        if let badge = registration.badge, let breach = Self.badge(badge) { note("#/badge", breach) }
        if let topics = registration.topics {
            if topics.count > Limits.topicsPerDeviceMax {
                note("#/topics", "must have at most \(Limits.topicsPerDeviceMax) elements")
            } else {
                for (index, topic) in topics.enumerated() {
                    if let breach = Self.topic(topic) { note("#/topics/\(index)", breach) }
                }
            }
        }
        breaches += Self.webpush(registration)
        return breaches
    }

    /// Returns what is wrong with a kind of token that a provider lacks: nothing would ever be sent to such a token.
    static func tokenKind(_ kind: TokenKind, of provider: Provider) -> String? {
        let kinds = provider.traits.tokenKinds
        guard !kinds.contains(kind) else { return nil }
        return "must be \(kinds.map(\.name).joined(separator: " or ")) for \(provider.name)"
    }

    /// Returns what is wrong with a user id; an empty one stands for nobody and is valid.
    static func user(_ text: String) -> String? {
        guard !text.isEmpty else { return nil }
        do throws(IdentifierError) {
            _ = try UserID(text)
            return nil
        } catch {
            return "must be \(error.rule)"
        }
    }

    /// Returns what is wrong with a badge.
    static func badge(_ number: UInt32) -> String? {
        number <= Limits.badgeMax ? nil : "must be at most \(Limits.badgeMax)"
    }

    /// Returns what is wrong with a topic's name.
    static func topic(_ text: String) -> String? {
        do throws(IdentifierError) {
            _ = try TopicName(text)
            return nil
        } catch {
            return "must be \(error.rule)"
        }
    }

    static func attributes(_ attributes: Attributes, at pointer: String) -> [ProblemDetails.Part] {
        var breaches: [ProblemDetails.Part] = []
        func check(_ text: String, _ name: String, bytesMax: Int) {
            if let breach = Self.text(text, bytesMax: bytesMax) {
                breaches.append(.init(pointer: "\(pointer)/\(name)", detail: breach))
            }
        }
        check(attributes.locale, "locale", bytesMax: Limits.localeBytesMax)
        if breaches.isEmpty, !attributes.locale.isEmpty, let breach = LanguageTag.breach(attributes.locale) {
            breaches.append(.init(pointer: "\(pointer)/locale", detail: breach))
        }
        check(attributes.timeZone, "time_zone", bytesMax: Limits.timeZoneBytesMax)
        check(attributes.appVersion, "app_version", bytesMax: Limits.appVersionBytesMax)
        check(attributes.country, "country", bytesMax: Limits.countryBytesMax)
        guard attributes.tags.count <= Limits.tagsPerDeviceMax else {
            let detail = "must have at most \(Limits.tagsPerDeviceMax) elements"
            return breaches + [.init(pointer: "\(pointer)/tags", detail: detail)]
        }
        for (index, tag) in attributes.tags.enumerated() {
            if tag.isEmpty {
                breaches.append(.init(pointer: "\(pointer)/tags/\(index)", detail: "must not be empty"))
            } else {
                check(tag, "tags/\(index)", bytesMax: Limits.tagBytesMax)
            }
        }
        return breaches
    }

    private static func text(_ text: String, bytesMax: Int) -> String? {
        if text.utf8.count > bytesMax { return "must have at most \(bytesMax) bytes" }
        return text.utf8.contains(0) ? "must not hold a NUL" : nil
    }

    /// RFC 8291 §3: a push message to a browser is encrypted with a key and a secret of its subscription.
    private static func webpush(_ registration: DeviceRegistration) -> [ProblemDetails.Part] {
        var breaches: [ProblemDetails.Part] = []
        let keys = [
            ("#/webpush_p256dh", registration.webpushP256DH, Limits.webpushP256DHBytes),
            ("#/webpush_auth", registration.webpushAuth, Limits.webpushAuthBytes),
        ]
        for (pointer, bytes, count) in keys {
            if registration.provider == .webpush {
                guard bytes.count != count else { continue }
                breaches.append(.init(pointer: pointer, detail: "must be \(count) bytes in base64url"))
            } else if !bytes.isEmpty {
                breaches.append(.init(pointer: pointer, detail: "is only for webpush"))
            }
        }
        if registration.provider != .webpush {
            if !registration.applicationServerKey.isEmpty {
                breaches.append(.init(pointer: "#/application_server_key", detail: "is only for webpush"))
            }
            if registration.expiresAt != nil {
                breaches.append(.init(pointer: "#/expires_at_ms", detail: "is only for webpush"))
            }
        } else if !registration.applicationServerKey.isEmpty,
            (try? PublicKey(uncompressedPoint: registration.applicationServerKey)) == nil
        {
            let detail = "must be an uncompressed point of P-256 in base64url, 65 bytes"
            breaches.append(.init(pointer: "#/application_server_key", detail: detail))
        }
        if breaches.isEmpty, registration.provider == .webpush,
            (try? PublicKey(uncompressedPoint: registration.webpushP256DH)) == nil
        {
            breaches.append(.init(pointer: "#/webpush_p256dh", detail: "must be an uncompressed point of P-256"))
        }
        return breaches
    }
}

/// The rules of an app for subscriptions, by the current configuration.
struct SubscriptionRules: Sendable {
    /// The hosts that subscriptions may lead to.
    var hosts: EndpointHosts
    /// The key that a client subscribes with now, which one that names none is taken to have subscribed with; empty when the configuration
    /// does not name it.
    var serverKey: [UInt8]
}
