import ApusCore
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusService
import ApusStreams
import ApusTLS
import ApusTestKit
import ApusTexts
import Foundation
import NIOHTTP1
import Synchronization
import Testing

@testable import ApusFeedback

/// Receipts on their way to a real listener.
@Suite struct WebhookTests {
    private static let secret = WebhookFixture.secret

    private func with(_ body: (WebhookFixture) async throws -> Void) async throws {
        try await WebhookFixture.with(body)
    }

    private func ids(_ request: WebhookReceiver.Request) throws -> [String] { try WebhookFixture.ids(request) }

    @Test func `Each secret of the file signs, the current one first, and whsec_ stands for the bytes of its base64`()
        throws
    {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let key = [UInt8](0..<32)
        func secrets(_ text: String) throws -> [[UInt8]]? {
            try folder.write("secret", text)
            return WebhookSettings(
                address: WebAddress(host: "localhost"),
                secretFile: "\(folder.path)/secret",
                batch: 1,
                attemptsMax: 1,
                timeout: .seconds(1)
            ).secrets
        }
        let standard = "whsec_" + Data(key).base64EncodedString()
        #expect(try secrets("\(standard)\n\(Self.secret)\n") == [key, Array(Self.secret.utf8)])
        #expect(try secrets("whsec_AAAA\n") == nil && secrets("short") == nil && secrets("") == nil)
        #expect(try secrets(Array(repeating: Self.secret, count: 5).joined(separator: "\n")) == nil)
        let receipt = SendReceipt(id: "r", send: "s", app: "shop", kind: .final)
        let both = [key, Array(Self.secret.utf8)]
        let now = UnixMilliseconds(seconds: 1_700_000_000)
        let request = WebhookRequest([("1-0", receipt)], shard: 3, secrets: both, now: now)
        let signatures = both.map { secret in
            let signed = Array("3/1-0/1.1700000000.".utf8) + request.body
            return "v1," + Data(HMACSHA256.authenticate(signed, key: secret)).base64EncodedString()
        }
        #expect(request.standardSignature == signatures.joined(separator: " "))
    }

    @Test func `A receipt is posted with all that it tells, by the names of the API's document`() throws {
        var receipt = SendReceipt(id: "r", send: "s", app: "shop", kind: .dryRun)
        receipt.problem = Problem(code: "c", field: "f", detail: "d")
        receipt.counts = [OutcomeCount(provider: .fcm, outcome: .open, reason: .none, count: 1)]
        let (now, place) = (UnixMilliseconds(seconds: 1_700_000_000), RecipientPlace.address(0))
        receipt.recipients = [RecipientOutcome(place: place, outcome: .open, reason: .none, at: now)]
        receipt.publishedAtNanoseconds = 1_700_000_000_123_456_789
        (receipt.firstAt, receipt.lastAt) = (now, now)
        (receipt.traceparent, receipt.tracestate) = ("00-1", "a=b")
        (receipt.idempotencyKey, receipt.duplicateOf) = ("k", "t")
        var rendering = SendReceipt.Rendering(
            provider: .fcm,
            environment: .production,
            locale: "de",
            payloadBytes: 2,
            payloadBytesMax: 4_096
        )
        (rendering.payload, rendering.headers) = ("{}", ["a: b"])
        receipt.renderings = [rendering]
        receipt.lints = [Problem(code: "truncated", field: "f", detail: "d")]

        let request = WebhookRequest([("1-0", receipt)], shard: 3, secrets: [Array(Self.secret.utf8)], now: now)
        let body = try JSONValue(parsing: request.body, bytesMax: 1 << 20)
        let shown = try #require(body["receipts"]?.array?.first?.object)
        #expect(shown["published_at_ms"] == 1_700_000_000_123 && shown["idempotency_key"] == "k")
        #expect(shown["traceparent"] == "00-1" && shown["tracestate"] == "a=b" && shown["duplicate_of"] == "t")
        let found = try #require(shown["dry_run"])
        #expect(found["renderings"]?.array?.first?["headers"] == ["a": "b"])
        #expect(found["lints"]?.array?.first?["code"] == "truncated")
        let document = try JSONValue(parsing: EmbeddedText.openAPI, bytesMax: 1 << 20, depthMax: 32)
        let schema = document["components"]?["schemas"]?["Receipts"]?["properties"]?["receipts"]?["items"]
        let documented = schema?["properties"]?.object?.members.map(\.name) ?? []
        #expect(Set(shown.members.map(\.name)) == Set(documented))
    }

    @Test func `Receipts are posted in batches, once each and in their order, with a signature that verifies`()
        async throws
    {
        try await self.with { setup in
            try await setup.write(0..<25)
            let receiver = try await WebhookReceiver.start()
            let sender = try setup.sender(to: receiver.port)
            var steps = 0
            while try await sender.step() { steps += 1 }
            let requests = receiver.requests
            #expect(steps == 3 && requests.count == 3)
            let ids = try requests.map { try self.ids($0) }
            #expect(ids.map(\.count) == [10, 10, 5])
            #expect(ids.flatMap(\.self) == (0..<25).map { "final:s\($0)" })
            #expect(Set(requests.compactMap { $0.headers.first(name: "apus-delivery") }).count == 3)
            for request in requests {
                #expect(request.path == "/hook?a=b")
                #expect(request.headers.first(name: "content-type") == "application/json")
                // As the receiver would: t and v1 out of the header, the code of "t.body".
                let header = try #require(request.headers.first(name: "apus-signature"))
                let parts = header.split(separator: ",").map { String($0.drop { $0 != "=" }.dropFirst()) }
                try #require(parts.count == 2)
                let code = try #require(Hexadecimal.decode(parts[1]))
                let text = Array("\(parts[0]).".utf8) + request.body
                #expect(HMACSHA256.verify(code, of: text, key: Array(Self.secret.utf8)))
                #expect(!HMACSHA256.verify(code, of: text + [0x20], key: Array(Self.secret.utf8)))
                // As a library of Standard Webhooks would.
                let id = try #require(request.headers.first(name: "webhook-id"))
                #expect(request.headers.first(name: "apus-delivery") == id)
                let time = try #require(request.headers.first(name: "webhook-timestamp"))
                #expect(time == parts[0])
                let signed = Array("\(id).\(time).".utf8) + request.body
                let expected = Data(HMACSHA256.authenticate(signed, key: Array(Self.secret.utf8))).base64EncodedString()
                #expect(request.headers.first(name: "webhook-signature") == "v1,\(expected)")
            }
            let body = try JSONValue(parsing: requests[0].body, bytesMax: 1 << 20)
            let first = try #require(body["receipts"]?.array?.first)
            #expect(first["kind"]?.string == "final" && first["planned"]?.int64 == 0)
            #expect(first["counts"]?.array?.first?["outcome"]?.string == "accepted")
            #expect(try await setup.pending() == 0)
            // They stay for whoever else reads them.
            let left = try await setup.client.send(RedisCommand("XLEN", .text(setup.keys.receipts)), on: setup.keys.tag)
            #expect(left.root.integer == 25)
            await receiver.stop()
        }
    }

    @Test func `A receiver that fails in every way gets the same batch again until it accepts it`() async throws {
        try await self.with { setup in
            try await setup.write(0..<3)
            let receiver = try await WebhookReceiver.start { number in
                switch number {
                case 0: .status(500)
                case 1: .close
                case 2: .status(301)
                case 3: .silence
                default: .status(200)
                }
            }
            let sender = try setup.sender(to: receiver.port, timeout: .seconds(1))
            #expect(try await sender.step())
            let requests = receiver.requests
            #expect(requests.count == 5)
            #expect(Set(requests.map(\.body)).count == 1)
            #expect(Set(requests.compactMap { $0.headers.first(name: "apus-delivery") }).count == 1)
            #expect(try await setup.pending() == 0)
            #expect(try await setup.deadLetters() == [])
            await receiver.stop()
        }
    }

    @Test func `A batch that fails its last try becomes dead letters, and the next batch has its turn`()
        async throws
    {
        try await self.with { setup in
            try await setup.write(0..<5)
            let receiver = try await WebhookReceiver.start { $0 < 3 ? .status(503) : .status(200) }
            let sender = try setup.sender(to: receiver.port, batch: 3, attemptsMax: 3)
            while try await sender.step() {}
            #expect(receiver.requests.count == 4)
            #expect(try self.ids(receiver.requests[3]) == ["final:s3", "final:s4"])
            let letters = try await setup.deadLetters()
            #expect(letters.count == 3 && letters.allSatisfy { $0.problem.code == "webhook" && $0.deliveries == 3 })
            let ids = try letters.map { try SendReceipt.decode($0.payload).id }
            #expect(ids == ["final:s0", "final:s1", "final:s2"])
            #expect(letters.map(\.app) == ["shop", "shop", "shop"] && letters.map(\.send) == ["s0", "s1", "s2"])
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `Receipts that were removed before they were taken are counted, in hand and unread`() async throws {
        try await self.with { setup in
            try await setup.write(0..<3)
            let trim = { (count: Int) in
                let command = RedisCommand("XTRIM", .text(setup.keys.receipts), "MAXLEN", .integer(count))
                _ = try await setup.client.send(command, on: setup.keys.tag)
            }
            let isTrimmed = Mutex(false)
            let receiver = try await WebhookReceiver.start { _ in .status(isTrimmed.withLock { $0 } ? 200 : 503) }
            var observed: MetricRegistry?
            let sender = try setup.sender(to: receiver.port, batch: 2, attemptsMax: 1_000_000) { observed = $0 }
            let registry = try #require(observed)
            func expired(_ count: Int) async -> Bool {
                let sample = "apus_feedback_webhook_receipts_total{effect=\"expired\"} \(count)\n"
                return String(decoding: await registry.exposition(.prometheusText), as: UTF8.self).contains(sample)
            }
            let step = Task { try await sender.step() }
            try await eventually("two are in hand") { try await setup.pending() == 2 }
            try await trim(1)
            #expect(try await step.value)
            #expect(await expired(2))
            // The third was not read; three of the next ones are removed before anybody reads them.
            try await setup.write(3..<6)
            try await trim(2)
            isTrimmed.withLock { $0 = true }
            while try await sender.step() {}
            #expect(await expired(4))
            #expect(try self.ids(try #require(receiver.requests.last)) == ["final:s4", "final:s5"])
            // Each counts once, at however many reads, also where more are gone than are left.
            try await setup.write(6..<20)
            try await trim(1)
            while try await sender.step() {}
            #expect(try await !sender.step())
            #expect(await expired(17))
            #expect(try self.ids(try #require(receiver.requests.last)) == ["final:s19"])
            #expect(try await setup.deadLetters().isEmpty)
            await receiver.stop()
        }
    }

    @Test func `A request has a maximum of bytes, and at least one receipt`() {
        let most = WebhookSender.packedBytesMax
        #expect(WebhookSender.countInOneRequest([most / 2, most / 2, 1]) == 2)
        #expect(WebhookSender.countInOneRequest([most + 1, 1]) == 1)
        #expect(WebhookSender.countInOneRequest([1, most, 1]) == 1)
        #expect(WebhookSender.countInOneRequest([1, 2, 3]) == 3)
    }

    @Test func `Large receipts read together are posted in parts, each once and in order`() async throws {
        try await self.with { setup in
            for number in 0..<40 {
                var receipt = SendReceipt(id: "final:s\(number)", send: "s\(number)", app: "shop", kind: .final)
                receipt.problem = Problem(code: "large", detail: String(repeating: "x", count: 4_000))
                try await setup.streams.outcomes.write(receipt, replyTo: "", tag: setup.keys.tag)
            }
            let receiver = try await WebhookReceiver.start { _ in .status(200) }
            let sender = try setup.sender(to: receiver.port, batch: 100)
            #expect(try await sender.step())
            let told = try receiver.requests.map { try self.ids($0) }
            #expect(told.count == 2 && told.joined().elementsEqual((0..<40).map { "final:s\($0)" }))
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `A batch has a maximum of bytes, whatever its number of receipts`() async throws {
        try await self.with { setup in
            // A hundred and fifty kilobytes each, so that every receipt is posted alone.
            let lint = Problem(code: "large", detail: String(repeating: "x", count: 4_000))
            for number in 0..<60 {
                var receipt = SendReceipt(id: "final:s\(number)", send: "s\(number)", app: "shop", kind: .final)
                receipt.lints = Array(repeating: lint, count: 38)
                try await setup.streams.outcomes.write(receipt, replyTo: "", tag: setup.keys.tag)
            }
            let receiver = try await WebhookReceiver.start { _ in .status(200) }
            let sender = try setup.sender(to: receiver.port, batch: 1_000)
            #expect(try await sender.step())
            // Ten are read at a time: thirty are the first that are more than the maximum together.
            #expect(receiver.requests.count == 30)
            while try await sender.step() {}
            let told = try receiver.requests.flatMap { try self.ids($0) }
            #expect(told == (0..<60).map { "final:s\($0)" })
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `A receiver that starts late loses nothing`() async throws {
        try await self.with { setup in
            try await setup.write(0..<4)
            let port = try FreePort.find()
            let sender = try setup.sender(to: port, attemptsMax: 1_000_000)
            let work = Task { await sender.run() }
            try await eventually("the batch is in hand") { try await setup.pending() == 4 }
            let receiver = try await WebhookReceiver.start(port: port)
            try await eventually("it was taken") { try await setup.pending() == 0 }
            let ids = try receiver.requests.flatMap { try self.ids($0) }
            #expect(ids == (0..<4).map { "final:s\($0)" })
            work.cancel()
            await work.value
            await receiver.stop()
        }
    }

    @Test func `Another sender posts the batch that a dead one had in hand`() async throws {
        try await self.with { setup in
            // More than one call takes over.
            try await setup.write(0..<25)
            let receiver = try await WebhookReceiver.start { $0 == 0 ? .silence : .status(200) }
            let first = try setup.sender(to: receiver.port, name: "one", batch: 25, timeout: .seconds(2))
            let work = Task { await first.run() }
            try await eventually("the first one asked") { receiver.requests.count == 1 }
            work.cancel()
            let other = try setup.sender(to: receiver.port, name: "other", batch: 25, lease: .milliseconds(400))
            try await eventually("the other one posted it") {
                _ = try await other.step()
                return try await setup.pending() == 0 && receiver.requests.count == 2
            }
            await work.value
            #expect(try self.ids(receiver.requests[0]) == self.ids(receiver.requests[1]))
            #expect(Set(receiver.requests.map { $0.headers.first(name: "webhook-id") }).count == 1)
            await receiver.stop()
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `A sender that stops does not wait for a silent receiver, and another takes over at once`() async throws {
        try await self.with { setup in
            try await setup.write(0..<2)
            let receiver = try await WebhookReceiver.start { $0 == 0 ? .silence : .status(200) }
            // Longer than the test may take: only the cancellation can end the request, or the lease.
            let hour = Duration.seconds(3_600)
            let first = try setup.sender(to: receiver.port, name: "one", timeout: hour, lease: hour)
            let work = Task { await first.run() }
            try await eventually("the first one asked") { receiver.requests.count == 1 }
            work.cancel()
            await work.value
            let other = try setup.sender(to: receiver.port, name: "other", lease: hour)
            try await eventually("the other one posted it") {
                _ = try await other.step()
                return receiver.requests.count == 2
            }
            #expect(try self.ids(receiver.requests[1]) == ["final:s0", "final:s1"])
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `Receipts for a publisher's own stream do not go to the webhook`() async throws {
        try await self.with { setup in
            let receiver = try await WebhookReceiver.start()
            let receipt = SendReceipt(id: "final:own", send: "own", app: "shop", kind: .final)
            let own = "apus:receipts:shop"
            try await setup.streams.outcomes.write(receipt, replyTo: own, tag: setup.keys.tag)
            try await setup.write(0..<1)
            let sender = try setup.sender(to: receiver.port)
            while try await sender.step() {}
            #expect(try receiver.requests.map { try self.ids($0) } == [["final:s0"]])
            let length = try await setup.client.send(RedisCommand("XLEN", .text(own)), on: HashTag(ofKey: own))
            #expect(length.root.integer == 1)
            await receiver.stop()
        }
    }

    /// The kind of a receiver's certificate.
    enum Certificate: CaseIterable {
        case good, ofAnotherName, expired, ofAnotherAuthority

        func identity(_ authority: CertificateAuthority, _ stranger: CertificateAuthority) throws -> TLSIdentity {
            let now = SystemClock().now()
            let (day, minute): (Int64, Int64) = (86_400_000, 60_000)
            let over = CertificateValidity(
                from: now.advanced(byMilliseconds: -day),
                until: now.advanced(byMilliseconds: -minute)
            )
            let profile = CertificateProfile(
                .server,
                commonName: "receiver",
                ipAddresses: [self == .ofAnotherName ? "127.0.0.2" : "127.0.0.1"],
                validity: self == .expired ? over : CertificateValidity(from: now),
            )
            return try (self == .ofAnotherAuthority ? stranger : authority).issue(profile)
        }
    }

    @Test(arguments: Certificate.allCases)
    func `Over HTTPS the receiver must prove its identity`(_ certificate: Certificate) async throws {
        try await self.with { setup in
            let validity = CertificateValidity(from: SystemClock().now())
            let authority = try CertificateAuthority(name: "ours", validity: validity)
            let stranger = try CertificateAuthority(name: "theirs", validity: validity)
            let identity = try certificate.identity(authority, stranger)
            try await setup.write(0..<3)
            let receiver = try await WebhookReceiver.start(tls: try TLSContext.server(identity: identity))
            let file = "\(setup.folder)/authority.pem"
            try Data(authority.certificatePEM.utf8).write(to: URL(filePath: file))
            let sender = try setup.sender(to: receiver.port, attemptsMax: 2, trust: .file(file))
            #expect(try await sender.step())
            let letters = try await setup.deadLetters()
            if certificate == .good {
                #expect(try receiver.requests.map { try self.ids($0) } == [["final:s0", "final:s1", "final:s2"]])
                #expect(letters == [])
            } else {
                // Not a byte of it went out.
                #expect(receiver.requests.isEmpty)
                #expect(letters.map(\.problem.code) == ["webhook", "webhook", "webhook"])
            }
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }
}
