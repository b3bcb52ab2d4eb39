import ApusCore
import ApusHTTP2
import ApusMessages
import ApusTLS
import ApusWebPush
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ApusProviders

/// A gateway whose recipients have addresses of their own: here a host, perhaps with @ and the number of a credential, a
/// space and the rest.
@Suite(.timeLimit(.minutes(2))) struct OriginGatewayTests {
    /// Sends to the hosts that it is told, all of which are the fake provider's port.
    private final class Addressing: RecipientAddressing {
        let port: Int
        let asked = Mutex<[String]>([])
        let verdicts = OriginVerdicts()
        private let trusted: @Sendable (String) -> HostTrust
        private let made: @Sendable (Origin) -> any ProviderCredential

        init(
            port: Int,
            _ trusted: @escaping @Sendable (String) -> HostTrust,
            _ made: @escaping @Sendable (Origin) -> any ProviderCredential,
        ) {
            self.port = port
            self.trusted = trusted
            self.made = made
        }

        private static func parts(_ recipient: [UInt8]) -> [Substring] {
            String(decoding: recipient, as: UTF8.self).split(separator: " ", maxSplits: 1)
        }

        func origin(of recipient: Span<UInt8>) -> Origin? {
            let parts = Self.parts(recipient.indices.map { recipient[$0] })
            guard parts.count == 2 else { return nil }
            let host = parts[0].split(separator: "@")
            return Origin(
                host: String(host[0]),
                port: host[0].hasSuffix(".invalid") ? 1 : self.port,
                credential: host.count == 2 ? Int(host[1]) ?? 0 : 0,
            )
        }

        func request(_ message: any Sendable, to recipient: [UInt8], badge: UInt32) -> AddressedRequest {
            let path = Self.parts(recipient)[1]
            if path == "none" { return .refused(.rejected(.payload), reason: "nothing for this one") }
            return .request(path: "/\(path)", headers: [], body: Array("\(message) \(badge)".utf8))
        }

        func credential(for origin: Origin) -> any ProviderCredential {
            self.asked.withLock { $0.append(origin.host) }
            return self.made(origin)
        }

        func exists(_ host: String) -> Bool { !host.hasPrefix("made-up") }
        func trust(in host: String) -> HostTrust { self.trusted(host) }
        var connectsTo: WebAddress? { nil }
    }

    private struct Answers: AnswerReader {
        func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning {
            let outcome: DeliveryOutcome =
                switch answer.status {
                case 200..<300: .accepted
                case 401: .misconfigured(.staleCredential)
                case 429: .deferred(Deferral(.rateLimited, scope: .device))
                case 410: .unregistered(.unregistered, asOf: nil)
                default: .rejected(.other)
                }
            return AnswerMeaning(outcome, word: "status \(answer.status)")
        }

        func id(in answer: PlainAnswer) -> String { "" }
    }

    private func start(
        _ provider: FakeProvider,
        _ made: @escaping @Sendable (Origin) -> any ProviderCredential = { _ in SignedCredential() },
        trust: @escaping @Sendable (String) -> HostTrust = { _ in .named },
        change: (inout ProviderGatewayConfiguration) -> Void = { _ in },
    ) async throws -> (gateway: TestGateway, addressing: Addressing) {
        let addressing = Addressing(port: provider.port, trust, made)
        let message = PreparedMessage(addressed: "hello", body: RenderedBody([:], places: []))
        let gateway = try await TestGateway.start(
            provider,
            credential: SignedCredential(),
            total: 0,
            sendsAgain: false,
            message: message,
        ) { configuration in
            configuration = ProviderGatewayConfiguration(provider: .webpush, answers: Answers(), host: "many")
            configuration.housekeeping = .milliseconds(20)
            configuration.backoff = ConnectBackoff(base: 5_000_000, cap: 50_000_000, stableAfter: 10_000_000_000)
            configuration.bindsRecipients = true
            configuration.addressing = addressing
            // On a machine with other work a name may be looked up for longer than the two seconds of production.
            configuration.originLimits.connectingMax = 8_000_000_000
            change(&configuration)
        }
        return (gateway, addressing)
    }

    private static func submit(_ gateway: TestGateway, _ tag: UInt64, _ recipient: String) async throws {
        let isTaken = try await gateway.look { $0.submit(tag, token: Array(recipient.utf8)) }
        #expect(isTaken)
    }

    /// Submits requests in order, each as soon as there is room. They have tags from `first` on.
    private static func submit(_ gateway: TestGateway, _ recipients: [String], first: Int = 0) async throws {
        var next = 0
        while next < recipients.count {
            next = try await gateway.look { [next] traffic in
                var next = next
                while next < recipients.count, traffic.gateway.hasRoom(.bulk),
                    traffic.submit(UInt64(first + next), token: Array(recipients[next].utf8))
                {
                    next += 1
                }
                return next
            }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    @Test func `Each origin has connections and a credential of its own, and each request its path and body`()
        async throws
    {
        let seen = Mutex<[String: [String]]>([:])
        let provider = try await FakeProvider.start { connection, request in
            let host = request.fields.first { $0.name == ":authority" }?.value.split(separator: ":").first.map(
                String.init
            )
            let text =
                "\(request.path) \(String(decoding: request.body, as: UTF8.self)) "
                + (request.fields.first { $0.name == "authorization" }?.value ?? "-")
            seen.withLock { $0[host ?? "", default: []].append(text) }
            connection.respond(request, 201)
        }
        let (gateway, addressing) = try await self.start(provider) { SignedCredential("for \($0.host)") }
        for (tag, recipient) in ["localhost a", "127.0.0.1 b", "localhost c"].enumerated() {
            try await Self.submit(gateway, UInt64(tag), recipient)
        }
        try await gateway.until { $0.outcomes.count == 3 }
        #expect(try await gateway.look { $0.count(.accepted) } == 3)
        #expect(try await gateway.look { $0.ofOneOrigin } == [0, 1, 2])
        let asked = addressing.asked.withLock { $0 }
        #expect(asked == ["localhost", "127.0.0.1"])
        let requests = seen.withLock { $0 }
        #expect(requests["localhost"]?.sorted() == ["/a hello 0 for localhost", "/c hello 0 for localhost"])
        #expect(requests["127.0.0.1"] == ["/b hello 0 for 127.0.0.1"])
        let counts = try await gateway.look { $0.gateway.status.counts }
        #expect(counts.accepted == 3 && counts.submitted == 3 && counts.refusals == [:])
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test func `What cannot be sent is answered, and stops nobody else`() async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path == "/gone" ? 410 : 201)
        }
        let (gateway, _) = try await self.start(provider)
        for (tag, recipient) in ["nowhere", "localhost none", "localhost gone", "closed.invalid x", "localhost a"]
            .enumerated()
        {
            try await Self.submit(gateway, UInt64(tag), recipient)
        }
        try await gateway.until { $0.outcomes.count == 5 }
        let outcomes = try await gateway.look { $0.outcomes }
        #expect(outcomes[0] == .rejected(.other))
        #expect(outcomes[1] == .rejected(.payload))
        #expect(outcomes[2] == .unregistered(.unregistered, asOf: nil))
        #expect(outcomes[3] == .deferred(Deferral(.connection, scope: .device)))
        #expect(outcomes[4] == .accepted)
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test("D107 a host that must be public and leads to this machine is not connected to")
    func publicOnly() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let (gateway, _) = try await self.start(provider, trust: { _ in .unknown })
        try await Self.submit(gateway, 0, "127.0.0.1 a")
        try await gateway.until { $0.outcomes.count == 1 }
        #expect(
            try await gateway.look { $0.faults.first }
                == "127.0.0.1 leads to no address of the public internet"
        )
        #expect(try await gateway.look { $0.outcomes[0] } == .deferred(Deferral(.connection, scope: .device)))
        #expect(try await provider.look { $0.count } == 0)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D99 a token that was accepted before is signed anew once, and what was refused for a moment is sent again")
    func briefRefusal() async throws {
        let refusals = Mutex(0)
        let provider = try await FakeProvider.start { connection, request in
            let isRefused =
                request.path == "/b"
                && refusals.withLock { refusals in
                    refusals += 1
                    return refusals == 1
                }
            connection.respond(request, isRefused ? 401 : 201)
        }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, 0, "localhost a")
        try await gateway.until { $0.outcomes[0] != nil }
        try await Self.submit(gateway, 1, "localhost b")
        try await gateway.until { $0.outcomes[1] != nil }
        #expect(try await gateway.look { $0.freeDeferrals } == 1)
        try await Self.submit(gateway, 2, "localhost b")
        try await gateway.until { $0.outcomes[2] != nil }
        #expect(try await gateway.look { $0.outcomes[2] == .accepted && $0.holds.isEmpty })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D99 a token that is refused again once it is signed anew is at fault, and its origin rests")
    func lastingRefusal() async throws {
        let isRefusing = Mutex(false)
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, isRefusing.withLock { $0 } ? 401 : 201)
        }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, 0, "localhost a")
        try await gateway.until { $0.outcomes[0] != nil }
        isRefusing.withLock { $0 = true }
        var tag: UInt64 = 0
        var last: Deferral?
        repeat {
            tag += 1
            let own = tag
            try await Self.submit(gateway, own, "localhost b\(own)")
            try await gateway.until { $0.outcomes[own] != nil }
            guard case .deferred(let deferral)? = try await gateway.look({ $0.outcomes[own] }) else { break }
            last = deferral
        } while last?.isFree ?? false
        // The first token, the newly signed one, and then none.
        #expect(tag == 3 && last?.reason == .credentials && last?.retryAfterMilliseconds ?? 0 > 0)
        #expect(try await gateway.look { $0.holds.isEmpty })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test(
        "D100 recipients that are refused with a token that others had, and with the next one, wait alone; further ones do not"
    )
    func refusedRecipients() async throws {
        let signed = Tally()
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path.hasPrefix("/other") ? 401 : 201)
        }
        let (gateway, _) = try await self.start(provider) { _ in NumberedCredential(signed) }
        try await Self.submit(gateway, 0, "localhost a")
        try await gateway.until { $0.outcomes.count == 1 }
        // Nobody else is sent to between, with the new token.
        var tag: UInt64 = 0
        func submit(_ recipient: String) async throws -> Deferral? {
            tag += 1
            let own = tag
            try await Self.submit(gateway, own, "localhost \(recipient)")
            try await gateway.until { $0.outcomes[own] != nil }
            guard case .deferred(let deferral)? = try await gateway.look({ $0.outcomes[own] }) else { return nil }
            return deferral
        }
        #expect(try await submit("other")?.isFree == true)
        for _ in 0..<2 {
            let alone = try #require(try await submit("other"))
            #expect(!alone.isFree && alone.reason == .credentials && alone.retryAfterMilliseconds ?? 0 > 0)
        }
        #expect(signed.count == 2)
        #expect(try await submit("b") == nil)
        #expect(try await gateway.look { $0.outcomes[4] == .accepted && $0.holds.isEmpty })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D100 a newly signed token that others are accepted with is not at fault for one recipient")
    func boundRecipient() async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path == "/other" ? 401 : 201)
        }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, 0, "localhost a")
        try await gateway.until { $0.outcomes.count == 1 }
        for (tag, recipient) in [(UInt64(1), "other"), (2, "b"), (3, "other"), (4, "other"), (5, "b")] {
            try await Self.submit(gateway, tag, "localhost \(recipient)")
            try await gateway.until { $0.outcomes[tag] != nil }
        }
        let outcomes = try await gateway.look { $0.outcomes }
        #expect(outcomes[2] == .accepted && outcomes[5] == .accepted)
        for tag in [UInt64(3), 4] {
            guard case .deferred(let deferral)? = outcomes[tag] else {
                Issue.record("\(String(describing: outcomes[tag]))")
                continue
            }
            #expect(deferral.reason == .credentials && deferral.scope == .device && !deferral.isFree)
            #expect(deferral.retryAfterMilliseconds ?? 0 > 0)
        }
        #expect(try await gateway.look { $0.holds.isEmpty && $0.freeDeferrals == 1 })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D99 when a push service refuses many in a row, the credential is asked whether it still accepts others")
    func refusedInARow() async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path.hasPrefix("/other") ? 401 : 201)
        }
        let asked = Tally()
        let kept = KeptCredential(asked)
        let (gateway, _) = try await self.start(provider) { _ in kept }
        var tag: UInt64 = 0
        func submit(_ recipient: String) async throws -> Deferral? {
            tag += 1
            let own = tag
            try await Self.submit(gateway, own, "localhost \(recipient)")
            try await gateway.until { $0.outcomes[own] != nil }
            guard case .deferred(let deferral)? = try await gateway.look({ $0.outcomes[own] }) else { return nil }
            return deferral
        }
        #expect(try await submit("a") == nil)
        for round in 1...2 {
            #expect(try await submit("other")?.isFree == true)
            #expect(asked.count == round)
            for number in 0..<ProviderGateway.refusedInARowMax {
                #expect(try await submit("other\(number)")?.isFree == false)
            }
        }
        #expect(try await submit("b") == nil)
        #expect(try await submit("other")?.isFree == false)
        #expect(asked.count == 2)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D99 a browser that is refused on several event loops waits alone, and its push service goes on")
    func refusedOnLoops() async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path == "/other" ? 401 : 201)
        }
        let key = try VAPIDKey(file: Array(PrivateKey.generate(.p256).pem.utf8), subject: "mailto:ops@shop.example")
        let tokens = VAPIDCredential(keys: [key], clock: TestClock())
        let (first, _) = try await self.start(provider) { tokens.credential(for: $0) }
        try await Self.submit(first, 0, "localhost a")
        try await first.until { $0.outcomes[0] == .accepted }
        let (second, _) = try await self.start(provider) { tokens.credential(for: $0) }
        for gateway in [first, second] {
            var tag: UInt64 = 1
            var last: Deferral?
            repeat {
                let own = tag
                try await Self.submit(gateway, own, "localhost other")
                try await gateway.until { $0.outcomes[own] != nil }
                guard case .deferred(let deferral)? = try await gateway.look({ $0.outcomes[own] }) else { break }
                (last, tag) = (deferral, tag + 1)
            } while last?.isFree ?? false
            #expect(tag == 3 && last?.reason == .credentials && last?.retryAfterMilliseconds ?? 0 > 0)
            try await Self.submit(gateway, 10, "localhost b")
            try await gateway.until { $0.outcomes[10] != nil }
            #expect(try await gateway.look { $0.outcomes[10] == .accepted && $0.holds.isEmpty })
            #expect(try await gateway.look { $0.gateway.status.origins } == [.sending: 1])
            try await gateway.drain()
        }
        try await provider.stop()
    }

    @Test func `Requests with any credential of a host are sent, also those before its connection and beyond the room`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, (0..<600).map { "localhost@\($0 % 2) \($0)" })
        try await gateway.until { $0.outcomes.count == 600 }
        // On a busy machine the origins are slow for a moment; what was put off then is sent again, a little at a time.
        var submitted = 600
        for round in 0..<60 {
            let missing = try await gateway.look { 600 - $0.count(.accepted) }
            guard missing > 0 else { break }
            try await Task.sleep(for: .milliseconds(20 * round))
            let part = min(missing, 100)
            try await Self.submit(gateway, (0..<part).map { "localhost@\($0 % 2) again" }, first: submitted)
            submitted += part
            try await gateway.until { [submitted] in $0.outcomes.count == submitted }
        }
        #expect(try await gateway.look { $0.count(.accepted) } == 600)
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test(
        "D101 a key that one origin refuses stops that origin alone, and one that two services refuse stops the route",
        arguments: ["127.0.0.1 refused", "localhost@1 refused"]
    )
    func refusedKey(recipient: String) async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, request.path == "/refused" ? 401 : 201)
        }
        let (first, _) = try await self.start(provider) { _ in SignedCredential() }
        try await Self.submit(first, 0, "localhost a")
        try await first.until { $0.outcomes.count == 1 }
        // The token is signed anew, and is refused again: then its requests are put off.
        var tag: UInt64 = 1
        var last: Deferral?
        repeat {
            let own = tag
            try await Self.submit(first, own, recipient)
            try await first.until { $0.outcomes[own] != nil }
            guard case .deferred(let deferral)? = try await first.look({ $0.outcomes[own] }) else { break }
            (last, tag) = (deferral, tag + 1)
        } while last?.isFree ?? false
        #expect(tag == 4 && last?.reason == .credentials && last?.retryAfterMilliseconds ?? 0 > 0)
        try await Self.submit(first, 10, "localhost b")
        try await first.until { $0.outcomes[10] != nil }
        #expect(try await first.look { $0.outcomes[10] == .accepted && $0.holds.isEmpty })
        #expect(try await first.look { $0.gateway.status.origins } == [.refused: 1, .sending: 1])
        try await first.drain()

        let (second, _) = try await self.start(provider) { _ in SignedCredential() }
        for tag in [UInt64(0), 1] {
            try await Self.submit(second, tag, recipient)
            try await second.until { $0.outcomes[tag] != nil }
        }
        // The same service with another of the app's keys says no more than before.
        let (same, other) = recipient.hasPrefix("localhost") ? ("localhost", "127.0.0.1") : ("127.0.0.1", "localhost")
        for (tag, host) in [(UInt64(10), same), (11, same), (12, other), (13, other)] {
            #expect(try await second.look { $0.holds.isEmpty })
            try await Self.submit(second, tag, "\(host)@2 refused")
            try await second.until { $0.outcomes[tag] != nil }
        }
        #expect(try await second.look { $0.holds.count } == 1)
        #expect(try await second.look { !$0.gateway.hasRoom(.bulk) && $0.gateway.isHeld })
        try await second.look { $0.gateway.restored() }
        #expect(try await second.look { $0.gateway.hasRoom(.bulk) })
        try await second.drain()
        try await provider.stop()
    }

    @Test(arguments: [1, 6])
    func `Origins that never answer do not hold up one that does`(silent: Int) async throws {
        // As many as a client sends before it knows how many it may, so none is turned away.
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 100)) {
            connection,
            request in
            if request.path == "/good" { connection.respond(request, 201) }
        }
        let (gateway, _) = try await self.start(provider)
        var recipients: [String] = []
        for _ in 0..<700 {
            recipients += (1...silent).map { "localhost@\($0) silent" }
            recipients.append("127.0.0.1 good")
        }
        let start = ContinuousClock.now
        try await Self.submit(gateway, recipients)
        var good = Set(recipients.indices.filter { recipients[$0].hasSuffix("good") }.map(UInt64.init))
        var waiting = good
        var first = recipients.count
        // On a busy machine the good origin is slow for a moment, too; what was put off then is sent again, a little at a time.
        var missing = 0
        for round in 0..<300 where !waiting.isEmpty {
            try await gateway.until { [waiting] traffic in waiting.allSatisfy { traffic.outcomes[$0] != nil } }
            missing += try await gateway.look { [waiting] traffic in
                waiting.filter { traffic.outcomes[$0] != .accepted }.count
            }
            let part = min(missing, 20)
            missing -= part
            waiting = Set((first..<first + part).map(UInt64.init))
            good.formUnion(waiting)
            if part > 0 { try await Task.sleep(for: .milliseconds(10 * min(round, 60))) }
            try await Self.submit(gateway, Array(repeating: "127.0.0.1 good", count: part), first: first)
            first += part
        }
        #expect(waiting.isEmpty && missing == 0)
        let outcomes = try await gateway.look { $0.outcomes }
        // The silent ones took all the room that they may have. A request is given up after 30 s: a machine so busy that this took longer
        // has seen that, too.
        let isLate = ContinuousClock.now - start >= .seconds(30)
        let putOff = outcomes.filter { !good.contains($0.key) }
        #expect(!putOff.isEmpty)
        #expect(
            putOff.values.allSatisfy {
                if case .deferred(let deferral) = $0 { isLate || deferral.scope == .device } else { isLate }
            }
        )
        if silent == 1, !isLate { #expect(try await gateway.look { $0.gateway.inFlight } >= 256) }
        try await provider.stop()
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
    }

    @Test func `Requests for others go on beside a silent origin, without waiting for the housekeeping`() async throws {
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 100)) {
            connection,
            request in
            if request.path == "/good" { connection.respond(request, 201) }
        }
        let (gateway, _) = try await self.start(provider, change: { $0.housekeeping = .hours(1) })
        try await Self.submit(gateway, (0..<1_200).map { $0 % 3 == 0 ? "127.0.0.1 good" : "localhost silent" })
        try await gateway.until { traffic in
            (0..<400).allSatisfy { number in traffic.outcomes[UInt64(3 * number)] != nil }
        }
        // Connection and lanes have taken what they can; the rest was put off.
        let putOff = try await gateway.look { traffic in traffic.outcomes.filter { $0.key % 3 != 0 } }
        #expect(!putOff.isEmpty && putOff.values.allSatisfy { $0 == .deferred(Deferral(.connection, scope: .device)) })
        try await provider.stop()
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
    }

    @Test func `An origin that is not in use makes room for a new one, and one in use does not`() async throws {
        let provider = try await FakeProvider.start { connection, request in
            if request.path == "/hold" { return connection.held.append(request.streamID) }
            connection.respond(request, 201)
        }
        let (gateway, addressing) = try await self.start(
            provider,
            trust: { $0 == "localhost" ? .unknown : .known },
            change: { configuration in
                configuration.originCapacity = OriginCapacity(originsMax: 5, unknownMax: 3)
                configuration.namesOfOrigins = { _ in nil }
            },
        )
        func isAsked(after recipient: String, _ tag: UInt64) async throws -> Bool {
            let before = addressing.asked.withLock { $0.count }
            try await Self.submit(gateway, tag, recipient)
            try await gateway.until { $0.outcomes[tag] != nil }
            #expect(try await gateway.look { $0.outcomes[tag] } == .accepted)
            return addressing.asked.withLock { $0.count } > before
        }
        for number in 0..<3 { #expect(try await isAsked(after: "localhost@\(number) a", UInt64(number))) }
        #expect(try await !isAsked(after: "localhost@0 a", 3))
        // The second one is unused for longest.
        #expect(try await isAsked(after: "localhost@3 a", 4))
        #expect(try await !isAsked(after: "localhost@0 a", 5))
        #expect(try await !isAsked(after: "localhost@2 a", 6))
        #expect(try await isAsked(after: "localhost@1 a", 7))

        let used = ["localhost@0 hold", "localhost@1 hold", "localhost@2 hold"]
        for (index, recipient) in used.enumerated() { try await Self.submit(gateway, UInt64(10 + index), recipient) }
        while try await provider.look({ $0.reduce(0) { $0 + $1.held.count } }) < 3 {
            try await Task.sleep(for: .milliseconds(1))
        }
        try await Self.submit(gateway, 20, "localhost@4 a")
        try await gateway.until { $0.outcomes[20] != nil }
        #expect(try await gateway.look { $0.outcomes[20] } == .deferred(Deferral(.connection, scope: .device)))
        #expect(try await gateway.look { $0.reasons[20] } == "too many push services at a time")
        // Hosts that the provider names have places of their own.
        #expect(try await isAsked(after: "127.0.0.1 a", 21))
        try await provider.look { connections in
            for connection in connections {
                for stream in connection.held { connection.handler?.respond(to: stream, HTTP2Response(status: 201)) }
                connection.held = []
            }
        }
        try await gateway.until { traffic in (10...12).allSatisfy { traffic.outcomes[$0] == .accepted } }
        #expect(try await isAsked(after: "localhost@4 a", 22))
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test func `Connections to an origin close when it has been idle, and not while a request is in flight`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in
            if request.path == "/hold" { return connection.held.append(request.streamID) }
            connection.respond(request, 201)
        }
        let (gateway, addressing) = try await self.start(provider, change: { $0.originLimits.idleMax = 50_000_000 })
        try await Self.submit(gateway, 0, "127.0.0.1 hold")
        try await Self.submit(gateway, 1, "localhost a")
        try await gateway.until { $0.outcomes[1] != nil }
        // Only the origin with the request in flight is left: each has a connection for express and one for bulk.
        while try await gateway.look({ $0.gateway.status.connections.open }) != 2 {
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try await gateway.look { $0.gateway.inFlight == 1 && $0.outcomes[0] == nil })
        // The number may have been right before the idle ones were open: then the next request comes too soon.
        for tag in UInt64(2)..<100 where addressing.asked.withLock({ $0.count }) < 3 {
            try await Task.sleep(for: .milliseconds(60))
            try await Self.submit(gateway, tag, "localhost a")
            try await gateway.until { $0.outcomes[tag] != nil }
        }
        #expect(addressing.asked.withLock { $0 } == ["127.0.0.1", "localhost", "localhost"])
        try await provider.look { connections in
            for connection in connections {
                for stream in connection.held { connection.handler?.respond(to: stream, HTTP2Response(status: 201)) }
                connection.held = []
            }
        }
        try await gateway.until { $0.outcomes[0] == .accepted }
        while try await gateway.look({ $0.gateway.status.connections.open }) > 0 {
            try await Task.sleep(for: .milliseconds(5))
        }
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test(
        "D107 a request to any public host goes to the address that was checked, and a name that leads elsewhere later is refused"
    )
    func pinned() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let looked = Mutex<[CInt]>([])
        let isMoved = Mutex(false)
        // This machine stands for the internet. Its name leads to a private address later.
        let names = PublicNames(
            threads: 1,
            isPublic: { $0 == [127, 0, 0, 1] },
            lookUp: { _, family in
                looked.withLock { $0.append(family) }
                guard family == AF_INET else { return [] }
                return isMoved.withLock { $0 }
                    ? [[10, 0, 0, 1]] : [[10, 0, 0, 1], [127, 0, 0, 1], [192, 168, 0, 1]]
            },
        )
        let (gateway, _) = try await self.start(
            provider,
            trust: { _ in .unknown },
            change: { configuration in
                configuration.namesOfOrigins = { $0 == .unknown ? names : nil }
                configuration.originLimits.idleMax = 50_000_000
            },
        )
        try await Self.submit(gateway, 0, "localhost a")
        try await gateway.until { $0.outcomes[0] != nil }
        #expect(try await gateway.look { $0.outcomes[0] } == .accepted)
        #expect(looked.withLock { Set($0) } == [AF_INET, AF_INET6])
        isMoved.withLock { $0 = true }
        while try await gateway.look({ $0.gateway.status.connections.open }) > 0 {
            try await Task.sleep(for: .milliseconds(5))
        }
        try await Self.submit(gateway, 1, "localhost b")
        try await gateway.until { $0.outcomes[1] != nil }
        #expect(try await gateway.look { $0.outcomes[1] } == .deferred(Deferral(.connection, scope: .device)))
        let fault = try await gateway.look { $0.faults.last }
        #expect(fault == "localhost leads to no address of the public internet")
        try await gateway.drain()
        try await provider.stop()
        try await names.close()
    }

    @Test("D103 a service that slows down ten times in a row rests, and others go on")
    func rests() async throws {
        let slowed = Tally()
        let provider = try await FakeProvider.start { connection, request in
            if request.path == "/slow" { slowed.add() }
            connection.respond(request, request.path == "/slow" ? 429 : 201)
        }
        let (gateway, _) = try await self.start(provider)
        func submit(_ tag: UInt64, _ recipient: String) async throws -> DeliveryOutcome? {
            try await Self.submit(gateway, tag, recipient)
            try await gateway.until { $0.outcomes[tag] != nil }
            return try await gateway.look { $0.outcomes[tag] }
        }
        for tag in 0..<UInt64(10) {
            #expect(
                try await submit(tag, "localhost slow") == .deferred(Deferral(.rateLimited, scope: .device)),
                "\(tag)"
            )
        }
        guard case .deferred(let rest)? = try await submit(10, "localhost a") else {
            Issue.record("it does not rest")
            return
        }
        #expect(rest.reason == .rateLimited && rest.scope == .device && !rest.isFree)
        #expect((1...30_000).contains(rest.retryAfterMilliseconds ?? 0))
        #expect(slowed.count == 10)
        #expect(try await submit(11, "127.0.0.1 a") == .accepted)
        #expect(try await gateway.look { $0.gateway.status.origins } == [.resting: 1, .sending: 1])
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D105 nobody follows a redirect, and its recipient ends", arguments: [301, 302, 303, 307, 308])
    func redirect(status: Int) async throws {
        let elsewhere = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let location = try HeaderField("location", "https://localhost:\(elsewhere.port)/latest/meta-data")
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/moved" else { return connection.respond(request, 201) }
            connection.handler?.respond(to: request.streamID, HTTP2Response(status: status, headers: [location]))
        }
        let (gateway, addressing) = try await self.start(provider)
        try await Self.submit(gateway, 0, "localhost moved")
        try await gateway.until { $0.outcomes[0] != nil }
        #expect(try await gateway.look { $0.outcomes[0] } == .rejected(.other))
        try await Self.submit(gateway, 1, "localhost a")
        try await gateway.until { $0.outcomes[1] != nil }
        #expect(try await gateway.look { $0.outcomes[1] } == .accepted)
        #expect(try await provider.look { $0.reduce(0) { $0 + $1.requests } } == 2)
        #expect(try await elsewhere.look { $0.count } == 0)
        #expect(addressing.asked.withLock { $0 } == ["localhost"])
        try await gateway.drain()
        try await provider.stop()
        try await elsewhere.stop()
    }

    @Test("D108 an answer of 100 MB is read up to a limit, and the next request is answered")
    func longAnswer() async throws {
        let provider = try await FakeProvider.start { connection, request in
            guard request.path == "/long" else { return connection.respond(request, 201) }
            let body = [UInt8](repeating: 0x61, count: 100 << 20)
            connection.handler?.respond(to: request.streamID, HTTP2Response(status: 410, body: body))
        }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, 0, "localhost long")
        try await gateway.until { $0.outcomes[0] != nil }
        #expect(try await gateway.look { $0.outcomes[0] } == .unregistered(.unregistered, asOf: nil))
        try await Self.submit(gateway, 1, "localhost a")
        try await gateway.until { $0.outcomes[1] != nil }
        #expect(try await gateway.look { $0.outcomes[1] } == .accepted)
        #expect(try await gateway.look { $0.gateway.status.counts.bytesReceived } < 4 << 20)
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }

    @Test func `A fault of one origin is reported with its host, and lasts while one is there`() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let late = LateCredential()
        let (gateway, _) = try await self.start(provider) { origin -> any ProviderCredential in
            if origin.credential == 1 { late } else { SignedCredential() }
        }
        try await Self.submit(gateway, 0, "localhost@1 a")
        try await gateway.until { !$0.faults.isEmpty }
        try await Self.submit(gateway, 1, "127.0.0.1 b")
        try await gateway.until { $0.outcomes[1] == .accepted }
        #expect(try await gateway.look { $0.faults.allSatisfy { $0 == "localhost: not signed yet" } })
        #expect(try await gateway.look { $0.connects.count >= 1 && $0.gateway.hasFailingOrigin })
        let rooms = try await gateway.look { $0.rooms }
        late.allow()
        try await gateway.until { !$0.gateway.hasFailingOrigin && $0.rooms > rooms && $0.outcomes[0] != nil }

        try await Self.submit(gateway, 2, "closed.invalid c")
        try await gateway.until { $0.outcomes[2] != nil }
        #expect(try await gateway.look { $0.faults.last?.contains("closed.invalid:1") == true })
        #expect(try await gateway.look { $0.gateway.hasFailingOrigin })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test func `A host that anybody may have made up is no fault of the route, and what was not sent is no request`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 201) }
        let (gateway, _) = try await self.start(provider)
        try await Self.submit(gateway, 0, "made-up.invalid a")
        try await Self.submit(gateway, 1, "127.0.0.1 b")
        try await gateway.until { $0.outcomes[0] != nil && $0.outcomes[1] == .accepted }
        #expect(try await gateway.look { $0.faults.isEmpty && !$0.gateway.hasFailingOrigin })
        #expect(try await gateway.look { $0.gateway.status.counts.failures.isEmpty })
        #expect(try await gateway.look { $0.unsent } == [0])
        // One that is known to exist is a fault.
        try await Self.submit(gateway, 2, "closed.invalid c")
        try await gateway.until { $0.outcomes[2] != nil }
        #expect(try await gateway.look { !$0.faults.isEmpty && $0.gateway.hasFailingOrigin })
        #expect(try await gateway.look { !$0.gateway.status.counts.failures.isEmpty })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D99 what is sent after a refusal carries a newly signed token")
    func signedAnew() async throws {
        let tokens = Mutex<[String]>([])
        let provider = try await FakeProvider.start { connection, request in
            let token = request.fields.first { $0.name == "authorization" }?.value ?? "-"
            let count = tokens.withLock { tokens in
                tokens.append(token)
                return tokens.count
            }
            connection.respond(request, count == 2 ? 401 : 201)
        }
        let signed = Tally()
        let (gateway, _) = try await self.start(provider) { _ in NumberedCredential(signed) }
        var next: UInt64 = 0
        // A busy machine may not connect in time; then nothing is sent.
        while tokens.withLock({ $0.count }) < 3 {
            let tag = next
            try await Self.submit(gateway, tag, "localhost a")
            try await gateway.until { $0.outcomes[tag] != nil }
            next += 1
        }
        let last = next - 1
        #expect(try await gateway.look { $0.outcomes[last] } == .accepted)
        #expect(tokens.withLock { $0 } == ["token 1", "token 1", "token 2"])
        try await gateway.drain()
        try await provider.stop()
    }

    @Test func `A request that waits past the validity of its recipient is given back, and not sent`() async throws {
        // On a busy machine the origin may be slow for a moment, and what waits is put off: then it is tried anew.
        var isUndisturbed = false
        for round in 0..<20 where !isUndisturbed {
            try await Task.sleep(for: .milliseconds(25 * round))
            isUndisturbed = try await self.waitPastValidity()
        }
        #expect(isUndisturbed)
    }

    /// Lets three requests wait, two of them past the validity of their recipients; returns false if the origin put them off.
    private func waitPastValidity() async throws -> Bool {
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 1)) {
            connection,
            request in
            if request.path == "/first" { return connection.held.append(request.streamID) }
            connection.respond(request, 201)
        }
        // A second connection would have room.
        let (gateway, _) = try await self.start(provider, change: { $0.bulkConnectionsMax = 1 })
        // The client learns from the first answer how many requests it may have at a time.
        try await Self.submit(gateway, 0, "localhost known")
        try await gateway.until { $0.outcomes[0] == .accepted }
        try await Self.submit(gateway, 1, "localhost first")
        while try await !provider.look({ $0.contains { !$0.held.isEmpty } }) {
            try await Task.sleep(for: .milliseconds(1))
        }
        let isTaken = try await gateway.look { traffic in
            let now = NIODeadline.now().uptimeNanoseconds
            return [(UInt64(2), now), (3, .max), (4, now + 1_000_000)].allSatisfy { tag, validUntil in
                traffic.submit(tag, token: Array("localhost \(tag)".utf8), validUntil: validUntil)
            }
        }
        #expect(isTaken)
        try await gateway.until { $0.outcomes[2] != nil && $0.outcomes[4] != nil }
        let isPutOff = try await gateway.look { $0.outcomes[3] != nil }
        let free = DeliveryOutcome.deferred(Deferral(.connection, isFree: true))
        let isGivenBack = try await gateway.look { $0.outcomes[2] == free && $0.outcomes[4] == free }
        try await provider.look { connections in
            for connection in connections {
                for stream in connection.held { connection.handler?.respond(to: stream, HTTP2Response(status: 201)) }
                connection.held = []
            }
        }
        try await gateway.until { $0.outcomes[1] != nil && $0.outcomes[3] != nil }
        let (outcomes, freeCount) = try await gateway.look { ($0.outcomes, $0.freeDeferrals) }
        let accepted = try await gateway.look { $0.gateway.status.counts.accepted }
        if !isPutOff {
            #expect(isGivenBack && freeCount == 2)
            #expect(outcomes[1] == .accepted && outcomes[3] == .accepted && accepted == 3)
        }
        #expect(try await gateway.look { $0.gateway.inFlight } == 0)
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
        return !isPutOff
    }

    @Test func `One origin may have 256 requests waiting, and the gateway tells when there is room again`() async throws
    {
        let isHolding = Mutex(true)
        let provider = try await FakeProvider.start { connection, request in
            if isHolding.withLock({ $0 }) { return connection.held.append(request.streamID) }
            connection.respond(request, 201)
        }
        let (gateway, _) = try await self.start(provider)
        let taken = try await gateway.look { traffic in
            var taken = 0
            while traffic.gateway.hasRoom(.bulk), traffic.submit(UInt64(taken), token: Array("localhost \(taken)".utf8))
            {
                taken += 1
            }
            return taken
        }
        #expect(taken == 256)
        #expect(try await gateway.look { $0.gateway.inFlight } == 256)
        isHolding.withLock { $0 = false }
        while try await gateway.look({ $0.answers < taken }) {
            try await provider.look { connections in
                for connection in connections {
                    for stream in connection.held {
                        connection.handler?.respond(to: stream, HTTP2Response(status: 201))
                    }
                    connection.held = []
                }
            }
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try await gateway.look { $0.count(.accepted) } == 256)
        #expect(try await gateway.look { $0.gateway.hasRoom(.bulk) })
        try await gateway.drain()
        #expect(try await gateway.look { $0.isExact })
        try await provider.stop()
    }
}

/// Gives a header when it is told to.
private final class LateCredential: ProviderCredential {
    private let isAllowed = Mutex(false)

    func allow() { self.isAllowed.withLock { $0 = true } }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        guard self.isAllowed.withLock({ $0 }), let header = try? HeaderValue("late") else {
            return eventLoop.makeSucceededFuture(
                .unavailable(askAgainAt: UnixMilliseconds(0), detail: "not signed yet")
            )
        }
        return eventLoop.makeSucceededFuture(.usable(header, askAgainAt: UnixMilliseconds(.max)))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.grant(on: eventLoop)
    }

    func renewedTooOften() {}
    func restored() {}
    var expiresAt: UnixMilliseconds? { nil }
}

/// Signs as often as it is refused, and counts its tokens.
private final class NumberedCredential: ProviderCredential {
    private let signed: Tally
    private let header = Mutex<HeaderValue?>(nil)

    init(_ signed: Tally) { self.signed = signed }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        let grant = self.header.withLock { header in
            if header == nil { header = try? HeaderValue("token \(self.signed.add())") }
            return header.map { CredentialGrant.usable($0, askAgainAt: UnixMilliseconds(.max)) }
        }
        return eventLoop.makeSucceededFuture(grant ?? .paused(detail: "no header"))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.header.withLock { $0 = nil }
        return self.grant(on: eventLoop)
    }

    func renewedTooOften() {}
    func restored() {}
    var expiresAt: UnixMilliseconds? { nil }
}

/// Keeps its token when it is refused, because others are accepted with it, and counts the refusals.
private final class KeptCredential: ProviderCredential {
    private let refusals: Tally
    private let header = try? HeaderValue("kept")

    init(_ refusals: Tally) { self.refusals = refusals }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        let grant = self.header.map { CredentialGrant.usable($0, askAgainAt: UnixMilliseconds(.max)) }
        return eventLoop.makeSucceededFuture(grant ?? .paused(detail: "no header"))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.refusals.add()
        return self.grant(on: eventLoop)
    }

    func renewedTooOften() {}
    func restored() {}
    var expiresAt: UnixMilliseconds? { nil }
}

/// Signs once more when it is refused, and then no more.
private final class SignedCredential: ProviderCredential {
    private let text: String
    private let state = Mutex<(header: HeaderValue?, refusals: Int)>((nil, 0))

    init(_ text: String = "signed") { self.text = text }

    private func grant() -> CredentialGrant {
        self.state.withLock { state in
            guard state.refusals < 2 else { return .paused(detail: "refused twice") }
            if state.header == nil { state.header = try? HeaderValue(self.text) }
            guard let header = state.header else { return .paused(detail: "no header") }
            return .usable(header, askAgainAt: UnixMilliseconds(.max))
        }
    }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(self.grant())
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.state.withLock { state in
            state.refusals += 1
            state.header = nil
        }
        return self.grant(on: eventLoop)
    }

    func renewedTooOften() {}
    func restored() { self.state.withLock { $0.refusals = 0 } }
    var expiresAt: UnixMilliseconds? { nil }
}
