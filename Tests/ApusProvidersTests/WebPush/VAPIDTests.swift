import ApusCore
import ApusHTTP2
import ApusProviders
import ApusTLS
import ApusWebPush
import NIOCore
import NIOPosix
import Synchronization
import Testing

@Suite("Web Push: VAPID")
struct VAPIDTests {
    private final class Clock: WallClock {
        private let time: Mutex<Int64>
        init(seconds: Int64) { self.time = Mutex(seconds * 1_000) }
        func now() -> UnixMilliseconds { UnixMilliseconds(self.time.withLock { $0 }) }
        func nanosecondsSince1970() -> Int64 { self.now().value * 1_000_000 }
        func advance(seconds: Int64) { self.time.withLock { $0 += seconds * 1_000 } }
    }

    private let start: Int64 = 1_700_000_000
    private let subject = "mailto:ops@shop.example"

    private func key(_ subject: String? = nil) throws -> VAPIDKey {
        try VAPIDKey(file: Array(PrivateKey.generate(.p256).pem.utf8), subject: subject ?? self.subject)
    }

    private func claims(_ header: HeaderValue, of key: VAPIDKey) throws -> JSONValue {
        let parts = header.text.split(separator: " ")
        try #require(parts.count == 3 && parts[0] == "vapid" && parts[1].hasPrefix("t=") && parts[2].hasPrefix("k="))
        let token = String(parts[1].dropFirst(2).dropLast())
        let point = try #require(Base64URL.decode(parts[2].dropFirst(2)))
        #expect(point == key.publicPoint)
        let contents = try JWS.verify(
            token,
            algorithm: .es256,
            key: .publicKey(PublicKey(uncompressedPoint: point)),
        )
        #expect(try JSONValue(parsing: contents.header, bytesMax: 100)["typ"]?.string == "JWT")
        return try JSONValue(parsing: contents.payload, bytesMax: 1_000)
    }

    private func header(_ grant: CredentialGrant) throws -> HeaderValue {
        guard case .usable(let header, _) = grant else { throw ProvidersError(.signingFailed, "\(grant)") }
        return header
    }

    @Test(
        "D90 D91 a token is for the scheme, host and port of the endpoint",
        arguments: [
            ("https://fcm.googleapis.com/fcm/send/abc", "https://fcm.googleapis.com"),
            ("https://host.example:8443/x", "https://host.example:8443"),
            ("https://Web.Push.Apple.com:443/QO1?a=b", "https://web.push.apple.com"),
        ]
    )
    func audience(endpoint: String, audience: String) throws {
        let key = try self.key()
        let origin = try #require(WebPushEndpoint(endpoint)).origin
        let token = try key.sign(for: origin, expiresAt: UnixMilliseconds(seconds: self.start))
        let claims = try self.claims(HeaderValue(token.authorization), of: key)
        #expect(claims["aud"]?.string == audience)
        #expect(claims["sub"]?.string == self.subject)
        #expect(claims["exp"]?.int64 == self.start)
    }

    @Test("D92 at every send of two days the token expires later than then, and within 24 hours")
    func expiry() async throws {
        let (clock, key) = (Clock(seconds: self.start), try self.key())
        let signed = Mutex(0)
        let credential = VAPIDCredential(keys: [key], clock: clock) { _ in signed.withLock { $0 += 1 } }
        let connection = credential.credential(for: Origin(host: "web.push.apple.com"))
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        for _ in 0..<2 * 24 * 6 {
            let claims = try self.claims(self.header(try await connection.grant(on: loop).get()), of: key)
            let left = try #require(claims["exp"]?.int64) - clock.now().seconds
            #expect((3_600...12 * 3_600).contains(left))
            clock.advance(seconds: 600)
        }
        #expect(signed.withLock { $0 } == 5)
    }

    @Test("D93 RFC 8292's token verifies with its key, and not with one changed character")
    func example() throws {
        let token =
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3Njgs"
            + "InN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrEr"
            + "tmysazNjjvW2L9OkSSHzvoD1oA"
        let k = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"
        let key = VerificationKey.publicKey(try PublicKey(uncompressedPoint: #require(Base64URL.decode(k))))
        #expect(throws: Never.self) { try JWS.verify(token, algorithm: .es256, key: key) }
        let changed = token.replacing("eyJhdWQi", with: "eyJhdWQj")
        #expect(throws: TLSError.self) { try JWS.verify(changed, algorithm: .es256, key: key) }
    }

    @Test("A token is signed once for each origin, whoever asks")
    func cache() async throws {
        let clock = Clock(seconds: self.start)
        let credential = VAPIDCredential(keys: [try self.key()], clock: clock)
        let group = MultiThreadedEventLoopGroup.singleton
        func header(_ host: String) async throws -> HeaderValue {
            let connection = credential.credential(for: Origin(host: host))
            return try self.header(try await connection.grant(on: group.next()).get())
        }
        let first = try await header("a.example")
        #expect(try await header("a.example") === first)
        #expect(try await header("b.example") !== first)
        // The origin that was unused for longest makes room.
        for number in 0..<Limits.originsMax {
            clock.advance(seconds: 1)
            _ = try await header("\(number).example")
        }
        #expect(try await header("a.example") !== first)
    }

    @Test("A refused token is signed anew once; a second refusal within the hour is the key's, of that origin alone")
    func refusal() async throws {
        let clock = Clock(seconds: self.start)
        let credential = VAPIDCredential(keys: [try self.key()], clock: clock)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let connection = credential.credential(for: Origin(host: "a.example"))
        let first = try self.header(try await connection.grant(on: loop).get())
        clock.advance(seconds: 1)
        let second = try self.header(try await connection.rejected(first, on: loop).get())
        #expect(first !== second)
        // Another event loop that was refused with the first one gets the second one too.
        #expect(try self.header(try await connection.rejected(first, on: loop).get()) === second)
        for _ in 0..<2 {
            guard case .paused = try await connection.rejected(second, on: loop).get() else {
                Issue.record("it is not paused")
                return
            }
        }
        guard case .paused = try await connection.grant(on: loop).get() else {
            Issue.record("it is not paused")
            return
        }
        let other = credential.credential(for: Origin(host: "b.example"))
        _ = try self.header(try await other.grant(on: loop).get())
        // It may be tried again, but is not signed anew before an hour has passed.
        connection.restored()
        #expect(try self.header(try await connection.grant(on: loop).get()) === second)
        guard case .paused = try await connection.rejected(second, on: loop).get() else {
            Issue.record("it is signed anew")
            return
        }
        clock.advance(seconds: 3_600)
        connection.restored()
        #expect(try self.header(try await connection.rejected(second, on: loop).get()) !== second)
    }

    @Test func `A token is not at fault for one recipient for an hour after others were accepted`() async throws {
        let clock = Clock(seconds: self.start)
        let credential = VAPIDCredential(keys: [try self.key()], clock: clock)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let connection = credential.credential(for: Origin(host: "a.example"))
        let first = try self.header(try await connection.grant(on: loop).get())
        connection.accepted()
        clock.advance(seconds: 1_800)
        let second = try self.header(try await connection.rejected(first, on: loop).get())
        #expect(first !== second)
        clock.advance(seconds: 1_799)
        #expect(try self.header(try await connection.rejected(second, on: loop).get()) === second)
        clock.advance(seconds: 1)
        guard case .paused = try await connection.rejected(second, on: loop).get() else {
            Issue.record("it is not paused")
            return
        }
        // Another event loop's request is accepted with it.
        connection.accepted()
        #expect(try self.header(try await connection.grant(on: loop).get()) === second)
    }

    @Test func `A token is at fault when many recipients were refused since others were accepted`() async throws {
        let credential = VAPIDCredential(keys: [try self.key()], clock: Clock(seconds: self.start))
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let connection = credential.credential(for: Origin(host: "a.example"))
        let first = try self.header(try await connection.grant(on: loop).get())
        connection.accepted()
        let second = try self.header(try await connection.rejected(first, on: loop).get())
        for _ in 0..<2 {
            for _ in 0..<VAPIDCredential.excusedMax {
                #expect(try self.header(try await connection.rejected(second, on: loop).get()) === second)
            }
            guard case .paused = try await connection.rejected(second, on: loop).get() else {
                Issue.record("it is not paused")
                return
            }
            connection.accepted()
        }
    }

    @Test(
        "Subjects that push services refuse are refused",
        arguments: [
            ("mailto:ops@shop.example", true), ("https://shop.example/contact", true), ("ops@shop.example", false),
            ("mailto:Ops <ops@shop.example>", false), ("mailto: ops@shop.example", false),
            ("mailto:ops@localhost", false),
            ("https://localhost", false), ("http://shop.example", false), ("mailto:", false),
            ("mailto:@shop.example", false),
            ("https://a.localhost", false), ("", false),
        ]
    )
    func subjects(subject: String, isTaken: Bool) throws {
        #expect(VAPIDKey.isSubject(subject) == isTaken)
        if isTaken { _ = try self.key(subject) } else { #expect(throws: ProvidersError.self) { try self.key(subject) } }
    }

    @Test("A key is read from PEM and from the private number in base64url; other kinds are refused")
    func files() throws {
        let scalar = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
        let point = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
        let key = try VAPIDKey(file: Array("\(scalar)\n".utf8), subject: self.subject)
        #expect(Base64URL.encode(key.publicPoint) == point)
        let pem = try PrivateKey(p256Scalar: #require(Base64URL.decode(scalar))).pem
        #expect(try VAPIDKey(file: Array(pem.utf8), subject: self.subject).publicPoint == key.publicPoint)
        let rsa = try PrivateKey.generate(.rsa2048).pem
        for text in [rsa, "", "hello", String(scalar.dropLast(4))] {
            #expect(throws: ProvidersError.self) { try VAPIDKey(file: Array(text.utf8), subject: self.subject) }
        }
    }
}
