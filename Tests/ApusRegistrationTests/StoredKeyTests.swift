import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Testing

@Suite struct StoredKeyTests {
    @Test func aKeyOpensItsAppUntilItIsRevoked() async throws {
        try await Fixture.with { fixture in
            let (keys, shop) = (APIKeys(fixture.client), try AppID("shop"))
            let now = fixture.store.now
            let key = try await keys.create(shop, name: "backend-2", role: .register, now: now)
            #expect(key.hasPrefix("apus_"))
            try await eventually("the new key is known") {
                try await fixture.ask("GET", Fixture.path("d1"), key: key).status == 404
            }
            #expect(try await fixture.ask("POST", "/v1/apps/shop/sends", "{}", key: key).status == 403)
            #expect(try await fixture.ask("GET", Fixture.path("d1", app: "news"), key: key).status == 401)
            // Redis has a digest, and nothing else.
            let dump = try await fixture.client.send(
                RedisCommand("HGETALL", "apus:keys:shop"),
                on: HashTag(ofKey: "apus:keys:shop"),
            )
            let texts = dump.root.children.map { $0.string ?? "" }
            #expect(texts == ["backend-2", "register \(now) \(Hexadecimal.encode(SHA256.hash(utf8: key)))"])
            #expect(try await keys.list(shop).map(\.name) == ["backend-2"])
            #expect(try await keys.list(try AppID("news")).isEmpty)

            #expect(try await keys.revoke(shop, name: "backend-2"))
            #expect(try await !keys.revoke(shop, name: "backend-2"))
            try await eventually("the revoked key is refused") {
                try await fixture.ask("GET", Fixture.path("d1"), key: key).status == 401
            }
        }
    }

    @Test func oneAppWhoseKeysCannotBeReadKeepsNoOtherAppsFromBeingRead() async throws {
        try await Fixture.with { fixture in
            let (keys, shop) = (APIKeys(fixture.client), try AppID("shop"))
            let command = RedisCommand("SET", "apus:keys:late", "no hash")
            _ = try await fixture.client.send(command, on: HashTag(ofKey: "apus:keys:late"))
            let file = "\(fixture.folder.path)/apus.yaml"
            let settings = try String(contentsOfFile: file, encoding: .utf8)
            try fixture.folder.write("apus.yaml", settings + "\n  late:\n    auth: {api_keys: {}}\n")
            let unknown = "apus_unknown"
            try await eventually("the app is known, but not its keys") {
                try await fixture.ask("GET", Fixture.path("d1", app: "late"), key: unknown).status == 503
            }
            let answer = try await fixture.ask("GET", Fixture.path("d1"), key: unknown)
            #expect(answer.status == 503)
            #expect(answer.header("retry-after") == "2")
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)

            let key = try await keys.create(shop, name: "backend-2", role: .register, now: fixture.store.now)
            try await eventually("the new key is known") {
                try await fixture.ask("GET", Fixture.path("d1"), key: key).status == 404
            }
            #expect(try await keys.revoke(shop, name: "backend-2"))
            try await eventually("the revoked key is refused") {
                try await fixture.ask("GET", Fixture.path("d1"), key: key).status == 503
            }
            _ = try await fixture.client.send(
                RedisCommand("DEL", "apus:keys:late"),
                on: HashTag(ofKey: "apus:keys:late")
            )
            try await eventually("every key is known") {
                try await fixture.ask("GET", Fixture.path("d1"), key: key).status == 401
            }
        }
    }

    @Test func namesAndTheirNumberHaveRules() async throws {
        try await Fixture.with { fixture in
            let (keys, shop) = (APIKeys(fixture.client), try AppID("shop"))
            func create(_ name: String) async throws -> APIKeys.Refusal? {
                do {
                    _ = try await keys.create(shop, name: name, role: .admin, now: fixture.store.now)
                    return nil
                } catch let refusal as APIKeys.Refusal {
                    return refusal
                }
            }
            #expect(try await create("") == .badName)
            #expect(try await create("a b") == .badName)
            #expect(try await create(String(repeating: "k", count: 65)) == .badName)
            let longest = String(repeating: "k", count: 64)
            #expect(try await create(longest) == nil)
            #expect(try await create(longest) == .nameTaken(longest))
            for number in 1..<APIKeys.countMax { #expect(try await create("key-\(number)") == nil) }
            #expect(try await create("one-more") == .tooMany)
            // A record in another form authorizes nobody and stops nothing.
            let command = RedisCommand("HSET", "apus:keys:shop", "key-1", "admin 1 zz")
            _ = try await fixture.client.send(command, on: HashTag(ofKey: "apus:keys:shop"))
            #expect(try await keys.list(shop).count == APIKeys.countMax - 1)
        }
    }

    @Test func keySetsAreReadAgainWhenTheirFileChanges() async throws {
        let (old, new) = (try PrivateKey.generate(.p256), try PrivateKey.generate(.p256))
        @Sendable func set(_ key: PrivateKey, _ name: String) throws -> String {
            let point = try #require(key.publicKey.uncompressedPoint)
            let (x, y) = (Base64URL.encode(point[1..<33]), Base64URL.encode(point[33...]))
            return #"{"keys":[{"kty":"EC","crv":"P-256","kid":"\#(name)","x":"\#(x)","y":"\#(y)"}]}"#
        }
        @Sendable func token(_ key: PrivateKey, _ name: String) throws -> String {
            let end = Int64(Date().timeIntervalSince1970) + 600
            return try JWS.sign(
                header: #"{"alg":"ES256","kid":"\#(name)"}"#,
                payload: #"{"sub":"anna","aud":"shop-app","exp":\#(end)}"#,
                with: .privateKey(key),
            )
        }
        try await Fixture.with { fixture in
            let keys = try fixture.folder.write("keys.json", try set(old, "1"))
            let file = "\(fixture.folder.path)/apus.yaml"
            let settings = try String(contentsOfFile: file, encoding: .utf8)
            let hs256 = "{algorithm: hs256, secret_file: \(fixture.folder.path)/secret, audience: shop-app}"
            let es256 = "{algorithm: es256, jwks_file: \(keys), audience: shop-app}"
            #expect(settings.contains(hs256))
            try fixture.folder.write("apus.yaml", settings.replacing(hs256, with: es256))
            try await eventually("the set is in force") {
                try await fixture.ask("GET", Fixture.path("d1"), key: token(old, "1")).status == 404
            }
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: token(new, "2")).status == 401)
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: Fixture.token("anna")).status == 401)
            try fixture.folder.write("keys.json", try set(new, "2"))
            try await eventually("the new set is in force") {
                try await fixture.ask("GET", Fixture.path("d1"), key: token(new, "2")).status == 404
            }
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: token(old, "1")).status == 401)
            // A broken file changes nothing.
            try fixture.folder.write("keys.json", "{")
            try await eventually("the broken set is refused") { fixture.log.contains("the old ones stay") }
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: token(new, "2")).status == 404)
        }
    }
}
