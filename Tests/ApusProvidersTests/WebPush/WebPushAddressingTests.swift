import ApusCore
import ApusHTTP2
import ApusMessages
import ApusProviders
import ApusTLS
import NIOCore
import NIOPosix
import Testing

@testable import ApusWebPush

@Suite("Web Push: recipients")
struct WebPushAddressingTests {
    private let key: VAPIDKey
    private let older: VAPIDKey

    init() throws {
        self.older = try VAPIDKey(file: Array(PrivateKey.generate(.p256).pem.utf8), subject: "mailto:ops@shop.example")
        self.key = try VAPIDKey(file: Array(PrivateKey.generate(.p256).pem.utf8), subject: "mailto:ops@shop.example")
    }

    private func addressing(_ hosts: [String] = []) -> WebPushAddressing {
        WebPushAddressing(
            credential: VAPIDCredential(keys: [self.key, self.older], clock: TestClock()),
            hosts: EndpointHosts(further: hosts),
            namedHosts: hosts.isEmpty ? nil : EndpointHosts(only: hosts),
            connectsTo: nil,
        )
    }

    private func recipient(_ endpoint: String, _ keys: WebPushKeys, serverKey: [UInt8] = []) -> [UInt8] {
        var bytes = Array(endpoint.utf8)
        RecipientKeys.append(
            publicKey: keys.publicKey.span,
            secret: keys.secret.span,
            serverKey: serverKey.span,
            to: &bytes,
        )
        return bytes
    }

    private func message(_ kind: Notification.Kind = .alert) throws -> RenderedWebPushMessage {
        var notification = Notification()
        notification.kind = kind
        if kind == .alert { notification.title = "Tea" }
        return try WebPushRenderer(isDeclarative: false).render(notification, context: context()).base
    }

    private func refusal(_ request: AddressedRequest) -> DeliveryOutcome? {
        guard case .refused(let outcome, _) = request else { return nil }
        return outcome
    }

    @Test(
        "D105 D106 nothing is sent to a host that is not in the list, nor to another port",
        arguments: [
            ("https://web.push.apple.com/x", true), ("https://WEB.push.apple.com:443/x", true),
            ("https://push.example/x", true), ("https://web.push.apple.com:8443/x", false),
            ("https://evil.example/x", false), ("http://web.push.apple.com/x", false), ("x", false),
        ]
    )
    func hosts(endpoint: String, isTaken: Bool) throws {
        let browser = try TestBrowser()
        let recipient = self.recipient(endpoint, browser.keys)
        let addressing = self.addressing(["push.example"])
        #expect((addressing.origin(of: recipient.span) != nil) == isTaken)
        #expect(addressing.origin(of: Array(endpoint.utf8).span) == nil)
    }

    @Test func `Only a host that the configuration names may be private`() {
        #expect(self.addressing(["push.example"]).trust(in: "push.example") == .named)
        #expect(self.addressing(["push.example"]).trust(in: "web.push.apple.com") == .known)
        #expect(self.addressing(["any-public"]).trust(in: "push.example") == .unknown)
    }

    @Test func `A request has the path of its endpoint, exact headers, and content for its browser alone`() throws {
        let browser = try TestBrowser()
        let recipient = self.recipient("https://fcm.googleapis.com/fcm/send/a?b=c", browser.keys)
        guard
            case .request(let path, let headers, let body) = try self.addressing()
                .request(self.message(), to: recipient, badge: 0)
        else {
            Issue.record("it is refused")
            return
        }
        #expect(path == "/fcm/send/a?b=c")
        #expect(headers.first { $0.name == "content-length" }?.value.text == "\(body.count)")
        #expect(Set(headers.map(\.name)) == ["ttl", "urgency", "content-encoding", "content-type", "content-length"])
        #expect(try browser.decrypt(body) == self.message().body.bytes())
    }

    @Test("D100 a subscription of another key is quarantined unasked; of ours, or of nobody's, it is sent to")
    func serverKeys() throws {
        let browser = try TestBrowser()
        let other = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        for (serverKey, outcome) in [
            ([], nil), (self.key.publicPoint, nil), (self.older.publicPoint, nil),
            (other, DeliveryOutcome.suspect(.wrongSender)),
        ] {
            let recipient = self.recipient("https://web.push.apple.com/x", browser.keys, serverKey: serverKey)
            #expect(try self.refusal(self.addressing().request(self.message(), to: recipient, badge: 0)) == outcome)
        }
    }

    @Test func `A browser is sent to with the key that it subscribed with, over connections of that key`()
        async throws
    {
        let browser = try TestBrowser()
        let addressing = self.addressing()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        for (serverKey, index, key) in [
            ([], 0, self.key), (self.key.publicPoint, 0, self.key), (self.older.publicPoint, 1, self.older),
        ] {
            let recipient = self.recipient("https://web.push.apple.com/x", browser.keys, serverKey: serverKey)
            let origin = Origin(host: "web.push.apple.com", credential: index)
            #expect(addressing.origin(of: recipient.span) == origin)
            guard case .usable(let header, _) = try await addressing.credential(for: origin).grant(on: loop).get()
            else {
                Issue.record("there is no token")
                continue
            }
            #expect(header.text.hasSuffix(", k=\(Base64URL.encode(key.publicPoint))"))
        }
    }

    @Test func `A silent message to Safari and keys that are no keys are refused, each for itself`() throws {
        let browser = try TestBrowser()
        let safari = self.recipient("https://web.push.apple.com/x", browser.keys)
        let silent = try self.message(.background)
        #expect(self.refusal(self.addressing().request(silent, to: safari, badge: 0)) == .rejected(.payload))
        let chrome = self.recipient("https://fcm.googleapis.com/fcm/send/x", browser.keys)
        #expect(self.refusal(self.addressing().request(silent, to: chrome, badge: 0)) == nil)
        let bad = try #require(WebPushKeys(publicKey: [UInt8](repeating: 4, count: 65), secret: browser.keys.secret))
        let spoilt = self.recipient("https://fcm.googleapis.com/fcm/send/x", bad)
        #expect(
            try self.refusal(self.addressing().request(self.message(), to: spoilt, badge: 0)) == .suspect(.badToken)
        )
    }
}
