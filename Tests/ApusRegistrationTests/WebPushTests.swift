import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusRegistration
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Testing

@Suite struct WebPushTests {
    @Test("D106 only endpoints of known push services are taken")
    func knownPushServices() {
        let hosts = EndpointHosts(further: ["push.example", ".intern.example"])
        let table: [(String, Bool)] = [
            ("https://fcm.googleapis.com/fcm/send/abc", true), ("https://FCM.googleapis.com:443/wp/abc", true),
            ("https://jmt17.google.com/fcm/send/abc", true),
            ("https://updates.push.services.mozilla.com/wpush/v2/abc", true),
            ("https://web.push.apple.com/abc", true), ("https://wns2-par02p.notify.windows.com/w/?token=abc", true),
            ("https://push.example/1", true), ("https://a.intern.example", true), ("https://push.example?x", true),
            ("https://fcm.googleapis.com:444/x", false), ("https://fcm.googleapis.com:/x", false),
            ("https://fcm.googleapis.com.evil.tld/x", false), ("https://evilnotify.windows.com/x", false),
            ("https://.notify.windows.com/x", false), ("https://notify.windows.com/x", false),
            ("https://android.googleapis.com/gcm/send", false), ("https://fcm.googleapis.com./x", false),
            ("https://intern.example/x", false), ("https://x.push.example/x", false),
            ("https://127.0.0.1/x", false), ("https://2130706433/x", false), ("https://[::ffff:127.0.0.1]/x", false),
            ("https://169.254.169.254/latest", false), ("https://localhost/x", false), ("https://redis:6379/x", false),
            ("https://a\\.push.apple.com/x", false), ("https://evil.tld\\.push.apple.com/x", false),
            ("https://evil.tld%2f.push.apple.com/x", false), ("https://xn--fcm-x.googleapis.com/", false),
            // Interfaces of the same services that ask for credentials of other kinds.
            ("https://fcm.googleapis.com/v1/projects/x/messages:send", false), ("https://fcm.googleapis.com/", false),
            ("https://fcm.googleapis.com/fcm/send/../../v1/x", false),
            ("https://fcm.googleapis.com/wp/%2E%2e/v1", false),
            ("https://updates.push.services.mozilla.com/v1/x", false),
            ("https://api.push.apple.com/3/device/00", false),
            ("https://api.sandbox.push.apple.com/3/device/00", false),
            ("https://api-manage-broadcast.push.apple.com:443/1/apps/a/channels", false),
            ("https://fcm.googleapis.com/fcm/send/a..b?c=/../d", true),
        ]
        for (endpoint, isTaken) in table { #expect((hosts.breach(endpoint) == nil) == isTaken, "\(endpoint)") }
    }

    @Test func `Of any public host, an endpoint with a full name at port 443 is taken`() {
        let hosts = EndpointHosts(further: [EndpointHosts.anyPublic, "intern"])
        let table: [(String, Bool)] = [
            ("https://push.example/1", true), ("https://a.b-c.push2.example/1", true),
            ("https://web.push.apple.com/x", true),
            ("https://intern/x", true), ("https://push.example:444/x", false), ("https://127.0.0.1/x", false),
            ("https://2130706433/x", false), ("https://1.2/x", false), ("https://[::1]/x", false),
            ("https://localhost/x", false), ("https://any-public/x", false), ("https://push.example./x", false),
            ("https://.example/x", false), ("https://a..example/x", false), ("https://-a.example/x", false),
            ("https://a_b.example/x", false), ("https://permanently-removed.invalid/x", false),
        ]
        for (endpoint, isTaken) in table { #expect((hosts.breach(endpoint) == nil) == isTaken, "\(endpoint)") }
        #expect(!EndpointHosts(only: [EndpointHosts.anyPublic, "push.example"]).contains("other.example"))
    }

    @Test("D88 D89 a subscription is taken as the browser gives it, and keys that are none are refused")
    func subscriptions() async throws {
        let point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        let (p256dh, auth) = (Base64URL.encode(point), Base64URL.encode([UInt8](repeating: 7, count: 16)))
        let endpoint = "https://web.push.apple.com/QO1"
        @Sendable func body(_ endpoint: String, _ p256dh: String, _ auth: String) -> String {
            #"{"provider":"webpush","subscription":{"endpoint":"\#(endpoint)","expirationTime":null,"#
                + #""keys":{"p256dh":"\#(p256dh)","auth":"\#(auth)"}}}"#
        }
        try await Fixture.with { fixture in
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), body(endpoint, p256dh, auth)).status == 201)
            // Some clients keep the padding.
            let padded = body(endpoint, p256dh + "=", auth + "==")
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), padded).status == 200)
            let flat =
                #"{"provider":"webpush","token":"\#(endpoint)","webpush_p256dh":"\#(p256dh)","webpush_auth":"\#(auth)"}"#
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), flat).status == 200)
            let record = try #require(try await fixture.store.get(try AppID("shop"), try DeviceID("w1"))?.record)
            #expect(record.token == Array(endpoint.utf8))
            #expect(record.webpushP256DH == point)
            #expect(record.webpushAuth == [UInt8](repeating: 7, count: 16))
            let standard = "+/" + p256dh.dropFirst(2)
            let off = Base64URL.encode(point.prefix(64) + [point[64] ^ 1])
            let table: [(String, [String])] = [
                (body("https://push.example/1", p256dh, auth), ["#/token"]),
                (body(endpoint, off, auth), ["#/webpush_p256dh"]),
                (body(endpoint, standard, auth), ["#/subscription/keys/p256dh"]),
                (body("http://web.push.apple.com/x", p256dh, auth), ["#/token"]),
                (body("https://user@fcm.googleapis.com/x", p256dh, auth), ["#/token"]),
                (body(endpoint, p256dh, "AAAA"), ["#/webpush_auth"]),
                (body(endpoint, "*", auth), ["#/subscription/keys/p256dh"]),
                (
                    #"{"provider":"webpush","token":"x","subscription":{}}"#,
                    ["#/token", "#/subscription/endpoint", "#/subscription/keys"]
                ),
            ]
            for (body, expected) in table {
                let answer = try await fixture.ask("PUT", Fixture.path("w2"), body)
                #expect(answer.status == 422, "\(body)")
                #expect(pointers(answer).prefix(expected.count) == expected[...], "\(body) \(answer.text)")
            }
        }
    }

    /// A subscription with what stands beside it.
    private func registration(_ endpoint: String, _ more: String = "", expiry: String = "null") throws -> String {
        let point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        return #"{"provider":"webpush"\#(more),"subscription":{"endpoint":"\#(endpoint)","expirationTime":\#(expiry),"#
            + #""keys":{"p256dh":"\#(Base64URL.encode(point))","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}}"#
    }

    @Test func `The key and the end of a subscription are kept, and its host is written in lower case`() async throws {
        let key = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        try await Fixture.with { fixture in
            let more = #","application_server_key":"\#(Base64URL.encode(key))""#
            let body = try self.registration("https://WEB.push.apple.com/QO1", more, expiry: "1900000000000")
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), body).status == 201)
            let record = try #require(try await fixture.store.get(try AppID("shop"), try DeviceID("w1"))?.record)
            #expect(String(decoding: record.token, as: UTF8.self) == "https://web.push.apple.com/QO1")
            #expect(record.applicationServerKey == key && record.expiresAtSeconds == 1_900_000_000)
            // The next registration says everything anew.
            let plain = try self.registration("https://web.push.apple.com/QO1")
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), plain).status == 200)
            let changed = try #require(try await fixture.store.get(try AppID("shop"), try DeviceID("w1"))?.record)
            #expect(changed.applicationServerKey.isEmpty && changed.expiresAtSeconds == 0)
        }
    }

    @Test func `A subscription without its key keeps the one that is stored, or has the current one, on every way in`()
        async throws
    {
        let current = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        let older = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        let shop = """
                webpush: {key_file: /etc/passwd, subject: "mailto:a@b.example", public_key: \(Base64URL.encode(current))}
            """
        try await Fixture.with(shop: shop) { fixture in
            let app = try AppID("shop")
            func key(_ device: String) async throws -> [UInt8]? {
                try await fixture.store.get(app, DeviceID(device))?.record.applicationServerKey
            }
            let plain = try self.registration("https://web.push.apple.com/1")
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), plain).status == 201)
            #expect(try await key("w1") == current)
            // A subscription that names its key once keeps it, and another one of the same device does not inherit it.
            let named = try self.registration("https://web.push.apple.com/2")
            let withKey = named.replacing(
                #"{"provider""#,
                with: #"{"application_server_key":"\#(Base64URL.encode(older))","provider""#
            )
            #expect(try await fixture.ask("PUT", Fixture.path("w2"), withKey).status == 201)
            #expect(try await fixture.ask("PUT", Fixture.path("w2"), named).status == 200)
            #expect(try await key("w2") == older)
            let next = try self.registration("https://web.push.apple.com/3")
            #expect(try await fixture.ask("PUT", Fixture.path("w2"), next).status == 200)
            #expect(try await key("w2") == current)
            // The import, and the stream of backends.
            let line = try self.registration("https://web.push.apple.com/4", #","device":"w4""#)
            let imported = try await fixture.ask(
                "POST",
                "/v1/apps/shop/devices:import",
                line + "\n",
                [("content-type", "application/x-ndjson")],
            )
            #expect(imported.status == 200 && imported.text.contains("201"), "\(imported.text)")
            #expect(try await key("w4") == current)
            var command = DeviceRegistration(device: "w5", provider: .webpush, token: "https://web.push.apple.com/5")
            command.webpushP256DH = older
            command.webpushAuth = [UInt8](repeating: 1, count: 16)
            try await fixture.write(RegistrationCommand(app: "shop", action: .register(command)), for: "w5")
            try await eventually("the stream's device is there") { try await key("w5") == current }
        }
    }

    @Test func `What is no subscription any more, or is none of a browser's, is refused with what to do`() async throws
    {
        try await Fixture.with { fixture in
            let withdrawn = try self.registration("https://permanently-removed.invalid/fcm/send/x")
            let answer = try await fixture.ask("PUT", Fixture.path("w1"), withdrawn)
            #expect(answer.status == 422 && answer.text.contains("subscribe again"))
            let good = "https://web.push.apple.com/QO1"
            let table: [(String, String)] = [
                (try self.registration(good, #","application_server_key":"AAAA""#), "#/application_server_key"),
                (try self.registration(good, #","token_kind":"voip""#), "#/token_kind"),
                (try self.registration(good, #","expires_at_ms":1"#), "#/expires_at_ms"),
                (try self.registration(good, expiry: #""soon""#), "#/subscription/expirationTime"),
                (#"{"provider":"fcm","token":"a","application_server_key":"AAAA"}"#, "#/application_server_key"),
                (#"{"provider":"fcm","token":"a","expires_at_ms":1900000000000}"#, "#/expires_at_ms"),
            ]
            for (body, pointer) in table {
                let answer = try await fixture.ask("PUT", Fixture.path("w1"), body)
                #expect(answer.status == 422 && pointers(answer).contains(pointer), "\(body) \(answer.text)")
            }
            #expect(try await fixture.store.get(try AppID("shop"), try DeviceID("w1")) == nil)
        }
    }

    @Test func `Every way in has the same rules`() throws {
        var registration = DeviceRegistration(device: "w1", provider: .webpush, token: "https://127.0.0.1/x")
        let mistake = try #require(RegistrationRules.mistake(in: registration, hosts: EndpointHosts()))
        #expect(mistake.contains("token must be at a push service") && mistake.contains("webpush_p256dh"))
        registration.token = "https://web.push.apple.com/QO1"
        registration.webpushP256DH = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        registration.webpushAuth = [UInt8](repeating: 1, count: 16)
        #expect(RegistrationRules.mistake(in: registration, hosts: EndpointHosts()) == nil)
    }

    @Test func `A backend's command in the stream is held to the list of push services, too`() async throws {
        try await Fixture.with { fixture in
            var command = DeviceRegistration(device: "w1", provider: .webpush, token: "https://127.0.0.1/x")
            command.webpushP256DH = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
            command.webpushAuth = [UInt8](repeating: 1, count: 16)
            try await fixture.write(RegistrationCommand(app: "shop", action: .register(command)), for: "w1")
            try await eventually("it is a dead letter") { try await fixture.messages { $0.dead }.count == 1 }
            #expect(try await fixture.store.get(try AppID("shop"), try DeviceID("w1")) == nil)
        }
    }

    @Test func `An export names all that an import needs`() async throws {
        let key = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        try await Fixture.with { fixture in
            let more = #","application_server_key":"\#(Base64URL.encode(key))""#
            let body = try self.registration("https://web.push.apple.com/QO1", more, expiry: "1900000000000")
            #expect(try await fixture.ask("PUT", Fixture.path("w1"), body).status == 201)
            let device = try #require(try await fixture.store.get(try AppID("shop"), try DeviceID("w1")))
            var text: [UInt8] = []
            DeviceLine.append(ExportedDevice(device: device, topics: [], badge: nil), to: &text)
            let line = try DeviceLine(parsing: text.dropLast(), hosts: EndpointHosts())
            #expect(line.registration.applicationServerKey == key)
            #expect(line.registration.expiresAt == UnixMilliseconds(1_900_000_000_000))
            #expect(line.registration.webpushP256DH == device.record.webpushP256DH)
        }
    }
}
