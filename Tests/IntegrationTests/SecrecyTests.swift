import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// Searches what services say about themselves for secrets that they have handled, with the most talkative log.
@Suite struct SecrecyTests {
    private static let apiKey = "apus_secrecy_4c1d7e0b9a52"
    private static let identitySecret = "identity-secret-8f3ae1c6-0d57-4f0e-9d3f"
    private static let title = "title-canary-5d02f7"
    private static let refusedToken = "refused-token-canary-91be"
    private static let garbage = "garbage-canary-77f1c0"
    private static let token = String(repeating: "c0ffee5e", count: 8)
    private static let redisPassword = "redis-canary-2b9e61d40c"
    private static let webhookSecret = "webhook-canary-6e0d1f27a9b84c35-of-enough-bytes"
    private static let recordKey = String(repeating: "5eedc0de", count: 8)
    /// The beginning of every access token that the simulator's token server gives to FCM's clients.
    private static let accessToken = "ya29.simulated."

    /// Returns the lines of private keys below a folder: those of files that only their owner may read.
    private static func keyLines(in folder: String) throws -> [String] {
        var lines: [String] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            let path = "\(folder)/\(name)"
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            guard attributes[.type] as? FileAttributeType == .typeRegular, name != "ca.pem",
                let text = try? String(contentsOfFile: path, encoding: .utf8), text.contains("PRIVATE KEY")
            else { continue }
            lines += text.replacing("\\n", with: "\n").split(separator: "\n").map(String.init)
                .filter { $0.count >= 40 && $0.count <= 64 && !$0.contains("-----") && !$0.contains(" ") }
        }
        return lines
    }

    /// Returns the secrets that a text contains, by name.
    private static func found(_ secrets: [(name: String, value: String)], in text: String) -> Set<String> {
        let text = text.lowercased()
        return Set(secrets.filter { text.contains($0.value.lowercased()) }.map(\.name))
    }

    private static func work(_ fleet: Fleet, port: Int, userToken: String) async throws {
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: port,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        func status(_ method: String, _ path: String, _ key: String, _ body: String) async throws -> Int {
            let headers = [("content-type", "application/json"), ("authorization", "Bearer \(key)")]
            let path = "/v1/apps/\(Fleet.app)/\(path)"
            return try await connection.send(HTTPClientRequest(method, path, headers: headers, body: Array(body.utf8)))
                .status
        }
        let device = #"{"provider":"apns","token":"\#(Self.token)"}"#
        #expect(try await status("PUT", "devices/phone", userToken, device) == 201)
        #expect(try await status("PUT", "devices/other", Self.apiKey, device) == 201)
        #expect(try await status("PUT", "devices/phone", userToken + "x", device) == 401)
        let refused = #"{"provider":"apns","token":"\#(Self.refusedToken)"}"#
        #expect(try await status("PUT", "devices/refused", Self.apiKey, refused) == 422)
        #expect(try await status("PUT", "devices/refused", Self.apiKey, "{\"\(Self.refusedToken)") == 400)
        await connection.close()

        try await fleet.send(.topic("news"), id: "all") { $0.notification.title = Self.title }
        try await fleet.send(.devices(["other"]), id: "one", lane: .express) { $0.notification.title = Self.title }
        let address = Address(provider: .apns, token: Self.token)
        try await fleet.send(.addresses([address]), id: "direct", lane: .express) { $0.notification.title = Self.title }
        // Two that become dead letters: a text that is too long for Apple, and bytes that are no command.
        try await fleet.send(.devices(["other"]), id: "long", lane: .express) {
            $0.notification.body = String(String(repeating: Self.title, count: 400).prefix(4_090))
        }
        let keys = fleet.installation.streams.keys(shard: 0)
        let bytes = RedisCommand("XADD", .text(keys.mailbox(.bulk)), "*", "m", .bytes(Array(Self.garbage.utf8)))
        _ = try await fleet.client.send(bytes, on: keys.tag)
        _ = try await fleet.completion(of: "all") { try await fleet.makeRetriesDue() }
        for send in ["one", "direct", "long"] {
            try await eventually("\(send) has ended", timeout: .seconds(60)) {
                try await fleet.receipts(of: send).contains { $0.kind == .final || $0.kind == .refused }
            }
        }
        try await eventually("what is no command is a dead letter", timeout: .seconds(60)) {
            try await fleet.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag).root.integer ?? 0 >= 1
        }
    }

    /// Lets Redis break the connections of a service and then refuse its password, and waits until it says so.
    private static func lockOut(_ service: ServiceProcess, _ fleet: Fleet) async throws {
        let master = try #require(try await fleet.client.masters().first)
        let user = RedisCommand("ACL", "SETUSER", .text(service.name), "resetpass", ">another")
        _ = try await fleet.client.send(user, to: master)
        let kill = RedisCommand("CLIENT", "KILL", "USER", .text(service.name))
        _ = try await fleet.client.send(kill, to: master)
        try await eventually("\(service.name) is refused by Redis", timeout: .seconds(60)) {
            service.log.contains("WRONGPASS")
        }
    }

    @Test func `No secret stands in logs, metrics, admin answers, arguments or variables of a service`() async throws {
        let folder = try TemporaryFolder()
        var configuration = LocalClusterConfiguration()
        configuration.logLevel = "trace"
        configuration.identitySecretFile = try folder.write("identity", Self.identitySecret)
        configuration.encryptionKeyFile = try folder.write("records.key", "\(Self.recordKey)\n")
        configuration.redisPassword = Self.redisPassword
        let secretFile = try folder.write("webhook", "\(Self.webhookSecret)\n")
        // One request fails, so that something is said about it.
        let receiver = try await WebhookReceiver.start { .status($0 == 0 ? 500 : 200) }
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(Self.apiKey.utf8)))
        configuration.simulator.deadShare = DeadShare(0.3, seed: 1)
        configuration.hasRedisUsers = true
        try await Fleet.with(configuration) { fleet in
            fleet.installation.store.encryption.setKeys([Hexadecimal.decode(Self.recordKey) ?? []])
            let devices = try await fleet.register(40) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let webhook = "{url: \"http://127.0.0.1:\(receiver.port)/hook\", secret_file: \"\(secretFile)\"}"
            let feedback = try await fleet.startFeedback(["webhook": webhook])
            let (registration, port) = try await fleet.startRegistration()
            let end = fleet.clock.now().seconds + 3_600
            let userToken = try JWS.sign(
                header: #"{"alg":"HS256"}"#,
                payload: #"{"sub":"ada","aud":"cluster","exp":\#(end)}"#,
                with: .sharedSecret(Array(Self.identitySecret.utf8)),
            )
            try await Self.work(fleet, port: port, userToken: userToken)
            try await eventually("a webhook was refused, and then taken", timeout: .seconds(60)) {
                receiver.requests.count >= 2
            }
            let counts = try await fleet.ledger(of: "all")?.counts ?? []
            #expect(counts.contains { $0.provider == .fcm && $0.outcome == .accepted })

            var secrets = [
                ("API key", Self.apiKey), ("identity secret", Self.identitySecret), ("user's token", userToken),
                ("signature of the user's token", String(userToken.suffix(20))), ("title", Self.title),
                ("refused token", Self.refusedToken), ("bytes of no command", Self.garbage),
                ("device token", Self.token), ("device token's start", String(Self.token.prefix(24))),
                ("Redis' password", Self.redisPassword), ("webhook's secret", Self.webhookSecret),
                ("key of records", Self.recordKey), ("access token", Self.accessToken),
            ]
            secrets += devices.map { ("token of \($0.id)", $0.token) }
            let keyLines = try Self.keyLines(in: fleet.folder)
            #expect(keyLines.count >= 4)
            secrets += keyLines.map { ("line of a key", $0) }
            // The token that dispatchers show Apple.
            let tag = HashTag("apus:jwt")
            for name in try await fleet.client.send(RedisCommand("KEYS", "apus:jwt:*"), on: tag).root.children {
                let value = try await fleet.client.send(RedisCommand("GET", .bytes(name.bytes ?? [])), on: tag).root
                let text = String(decoding: value.bytes ?? [], as: UTF8.self)
                if text.count > 60 { secrets.append(("provider token", text)) }
            }
            #expect(secrets.contains { $0.0 == "provider token" })
            for service in [dispatcher, feedback, registration] {
                var places = [("/metrics", try await service.get("metrics").body)]
                places.append(("/readyz", try await service.get("readyz").body))
                try await Self.lockOut(service, fleet)
                for name in ["cmdline", "environ", "comm"] {
                    let bytes = try Data(contentsOf: URL(filePath: "/proc/\(service.processID)/\(name)"))
                    places.append((name, String(decoding: bytes, as: UTF8.self)))
                }
                try await service.terminate()
                if service.name == "dispatcher" { #expect(service.log.contains("\"level\":\"debug\"")) }
                places.append(("log", service.log))
                for (place, text) in places {
                    #expect(!text.isEmpty)
                    let found = Self.found(secrets, in: text)
                    let lines = text.split(separator: "\n").filter { !Self.found(secrets, in: String($0)).isEmpty }
                    let first = lines.first.map { String($0.prefix(1_000)) } ?? ""
                    #expect(found.isEmpty, "\(service.name)'s \(place) has \(found.sorted()), as in \(first)")
                    // The search itself works.
                    #expect(Self.found(secrets, in: text + Self.token.uppercased()).contains("device token"))
                }
            }
        }
        await receiver.stop()
        withExtendedLifetime(folder) {}
    }
}
