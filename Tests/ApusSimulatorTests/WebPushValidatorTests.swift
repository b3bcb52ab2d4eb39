import ApusCore
import ApusTLS
import Testing

@testable import ApusSimulator

@Suite("The simulated push services for browsers")
struct WebPushValidatorTests {
    private typealias Service = SimulatedBrowser.Service

    private let now = UnixMilliseconds(seconds: 1_700_000_000)
    private let key: PrivateKey
    private let point: [UInt8]
    private let validator: WebPushValidator

    init() throws {
        self.key = try PrivateKey.generate(.p256)
        self.point = try #require(self.key.publicKey.uncompressedPoint)
        self.validator = WebPushValidator(serverKeys: [self.point])
    }

    private func authorization(
        _ service: Service,
        life: Int64 = 3_600,
        subject: String = "mailto:a@b.example",
        by other: PrivateKey? = nil,
    ) throws -> String {
        let key = other ?? self.key
        let claims: JSONValue = [
            "aud": .string("https://\(service.rawValue)"), "exp": .integer(self.now.seconds + life),
            "sub": .string(subject),
        ]
        let token = try JWS.sign(header: #"{"typ":"JWT","alg":"ES256"}"#, payload: claims.text, with: .privateKey(key))
        return "vapid t=\(token), k=\(Base64URL.encode(try #require(key.publicKey.uncompressedPoint)))"
    }

    private func request(
        _ service: Service,
        _ change: (inout [String: String]) -> Void = { _ in }
    ) throws -> ProviderRequest {
        var headers = ["ttl": "60", "authorization": try self.authorization(service)]
        if service == .microsoft { headers["x-wns-cache-policy"] = "cache" }
        change(&headers)
        return ProviderRequest(
            authority: service.rawValue,
            path: SimulatedBrowser.path(of: service.endpoint("b1")),
            headers: headers.map { ProviderHeader($0.key, $0.value) },
            body: [],
        )
    }

    private func answer(_ request: ProviderRequest, _ behavior: TokenBehavior? = nil) -> ProviderAnswer {
        var behaviors = TokenBehaviors()
        if let behavior { behaviors.declare(behavior, of: TokenDigest(request.path, provider: .webpush)) }
        return self.validator.validate(
            request,
            isReadable: WebPushValidator.content(of: request) != nil,
            behaviors: behaviors,
            now: self.now,
            number: 7
        )
    }

    @Test func `Each service takes a message with 201 and says where it is`() throws {
        for service in Service.allCases {
            let answer = self.answer(try self.request(service))
            #expect(answer.status == 201)
            #expect(
                answer.headers.contains { $0.name == "location" && $0.value.hasPrefix("https://\(service.rawValue)/") }
            )
        }
    }

    @Test func `Each service refuses in its own words`() throws {
        let table: [(TokenBehavior, [Service: (Int, String)])] = [
            (
                .dead(since: self.now),
                [
                    .google: (410, "unsubscribed"), .mozilla: (410, #""errno":103"#), .apple: (410, "reason"),
                    .microsoft: (410, ""),
                ]
            ),
            (
                .foreign,
                [
                    .google: (403, "do not correspond"), .mozilla: (401, #""errno":109"#),
                    .apple: (403, "VapidPkHashMismatch"), .microsoft: (403, ""),
                ]
            ),
        ]
        for (behavior, expected) in table {
            for (service, (status, text)) in expected {
                let answer = self.answer(try self.request(service), behavior)
                #expect(answer.status == status)
                #expect(text.isEmpty || String(decoding: answer.body, as: UTF8.self).contains(text), "\(service)")
            }
        }
    }

    @Test func `What RFC 8030 and RFC 8292 forbid is refused`() throws {
        let other = try PrivateKey.generate(.p256)
        func status(_ service: Service = .google, _ change: (inout [String: String]) throws -> Void) throws -> Int {
            var changed: [String: String] = [:]
            _ = try self.request(service) { changed = $0 }
            try change(&changed)
            return self.answer(try self.request(service) { $0 = changed }).status
        }
        #expect(try status { $0["ttl"] = nil } == 400)
        #expect(try status { $0["ttl"] = "-1" } == 400)
        #expect(try status { $0["urgency"] = "now" } == 400)
        #expect(try status { $0["topic"] = String(repeating: "a", count: 33) } == 400)
        #expect(try status { $0["topic"] = "a.b" } == 400)
        #expect(try status(.apple) { $0["topic"] = "abcde" } == 400)
        #expect(try status(.google) { $0["topic"] = "abcde" } == 201)
        #expect(try status(.microsoft) { $0["ttl"] = "0" } == 400)
        #expect(
            try status(.microsoft) {
                $0["ttl"] = "0"
                $0["x-wns-cache-policy"] = "no-cache"
            } == 201
        )
        #expect(try status { $0["authorization"] = nil } == 401)
        #expect(try status { $0["authorization"] = try self.authorization(.google, life: 90_000) } == 403)
        #expect(try status { $0["authorization"] = try self.authorization(.google, life: -1) } == 403)
        #expect(try status { $0["authorization"] = try self.authorization(.apple) } == 403)
        #expect(try status { $0["authorization"] = try self.authorization(.google, subject: "me") } == 403)
        #expect(try status { $0["authorization"] = try self.authorization(.google, by: other) } == 403)
    }

    @Test func `Apple's service takes no time to live of 0, and the others do`() throws {
        for service in Service.allCases {
            let request = try self.request(service) {
                $0["ttl"] = "0"
                if service == .microsoft { $0["x-wns-cache-policy"] = "no-cache" }
            }
            let answer = self.answer(request)
            #expect(answer.status == (service == .apple ? 400 : 201), "\(service)")
            guard service == .apple else { continue }
            #expect(String(decoding: answer.body, as: UTF8.self) == #"{"reason":"BadTtl"}"#)
            #expect(self.answer(try self.request(service) { $0["ttl"] = "1" }).status == 201)
        }
    }

    @Test func `A body that was not encrypted for the browser is refused`() throws {
        var request = try self.request(.mozilla) { $0["content-encoding"] = "aes128gcm" }
        request.body = [UInt8](repeating: 1, count: 120)
        let answer = self.answer(request)
        #expect(answer.status == 400 && String(decoding: answer.body, as: UTF8.self).contains(#""errno":110"#))
        request.body = [UInt8](repeating: 1, count: 4_097)
        #expect(self.answer(request).status == 413)
    }

    @Test("D85 published bodies are decrypted, whatever the size of their records")
    func vectors() throws {
        func receiver(_ privateKey: [UInt8]?, _ secret: [UInt8]?) throws -> SimulatedBrowser {
            try #require(SimulatedBrowser(privateKey: privateKey ?? [], secret: secret ?? []))
        }
        let reader = try receiver(
            Base64URL.decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"),
            Base64URL.decode("BTBZMqHH6r4Tts7J_aSIgg"),
        )
        let body =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEq"
            + "KK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        let bytes = try #require(Base64URL.decode(body))
        #expect(reader.decrypt(bytes) == Array("When I grow up, I want to be a watermelon".utf8))
        #expect(reader.decrypt(Array(bytes.dropLast())) == nil)
        // A record of 18 bytes holds one byte; from the vectors of another library.
        let small = try receiver(
            Hexadecimal.decode("27433fab8970b3cb5284b61183efb46286562cd2a7330d8cae960911a5571d0c"),
            Hexadecimal.decode("d65a04df95f2db5e604839f717dcde79"),
        )
        let one = try #require(
            Hexadecimal.decode(
                "7caebdbc20938ee340a946f1bd4f68f100000012410437cfdb5223d9f95eaa02f6ed940ff22eaf05b3622e949dc3ce9f335e6ef9b26aeaac"
                    + "ca0f74080a8b364592f2ccc6d5eddd43004b70b91887d144d9fa93f16c3bc7ea68f4fd547a94eca84b16e138a6080177"
            )
        )
        #expect(small.decrypt(one) == Array("1".utf8))
        // RFC 8188 §3.1 and §3.2: without a key's id, and in two records.
        for (text, key) in [
            ("I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg", "yqdlZ-tYemfogSmv7Ws5PQ"),
            (
                "uNCkWiNYzKTnBN9ji3-qWAAAABkCYTHOG8chz_gnvgOqdGYovxyjuqRyJFjEDyoF1Fvkj6hQPdPHI51OEUKEpgz3SsLWIqS_uA",
                "BO3ZVPxUlnLORbVGMpbT1Q"
            ),
        ] {
            let body = try #require(Base64URL.decode(text))
            let header = try #require(ContentHeader(body))
            #expect(header.open(body, with: try #require(Base64URL.decode(key))) == Array("I am the walrus".utf8))
        }
    }
}
