import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Testing

@Suite struct WebPushTests {
    @Test func onlyKnownPushServicesAreTaken() {
        let hosts = WebPushHosts(further: ["push.example", ".intern.example"])
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
        ]
        for (endpoint, isTaken) in table { #expect((hosts.breach(endpoint) == nil) == isTaken, "\(endpoint)") }
    }

    @Test func aSubscriptionIsTakenAsTheBrowserGivesIt() async throws {
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
            let off = Base64URL.encode(point.prefix(64) + [point[64] ^ 1])
            let table: [(String, [String])] = [
                (body("https://push.example/1", p256dh, auth), ["#/token"]),
                (body(endpoint, off, auth), ["#/webpush_p256dh"]),
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
}
