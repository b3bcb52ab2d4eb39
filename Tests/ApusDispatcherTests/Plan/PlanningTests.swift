import ApusBuiltInProviders
import ApusCore
import ApusMessages
import ApusProviders
import ApusService
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusDispatcher

@Suite struct PlanningTests {
    @Test(arguments: ["list:17", "scan:1:255:3:4095", "scan:0:12:0:0:0-4,6,8.3.40,9-10", "scan:0:2:0:0:0.0.1,1"])
    func `A cursor comes back from its text`(text: String) {
        let isList = text.hasPrefix("list")
        #expect(PlanCursor(text: text, isList: isList)?.text == text)
        #expect(PlanCursor(text: text, isList: !isList) == nil)
    }

    @Test func `The empty cursor is the beginning, and nonsense is not a cursor`() {
        #expect(PlanCursor(text: "", isList: true) == .list(index: 0))
        #expect(PlanCursor(text: "", isList: false) == .scan(ScanPosition()))
        for text in [
            "list", "list:", "list:x", "list:-1", "list:1:2", "scan:1:2:3", "scan:1:2:3:4:5", "scan:1:2:3:4:",
            "scan:1:2:3:4:5:6",
            "scan:0:9:0:0:4-3", "scan:0:9:0:0:3,3", "scan:0:9:0:0:5,3", "scan:0:9:0:0:1.2", "scan:0:9:0:0:9",
            "scan:0:9:0:0:0-",
            "scan:0:-1:0:0", "scan:0:2000000000:0:0:0-1999999999", "other:1",
        ] {
            #expect(PlanCursor(text: text, isList: true) == nil, "\(text)")
            #expect(PlanCursor(text: text, isList: false) == nil, "\(text)")
        }
    }

    @Test func `Units fill up across partitions and cut a chunk where they are full`() {
        var gathering = Gathering(recipientsMax: 5)
        #expect(gathering.add(ChunkSet([1, 2, 3]), partition: 0, chunk: 0, from: 0, unitsMax: 2) == nil)
        #expect(gathering.add(ChunkSet([10, 11, 12, 13]), partition: 1, chunk: 7, from: 0, unitsMax: 2) == nil)
        #expect(gathering.fullUnits == 1)
        #expect(
            gathering.units == [
                [
                    Segment(partition: 0, chunk: 0, ordinals: [1, 2, 3]),
                    Segment(partition: 1, chunk: 7, ordinals: [10, 11]),
                ],
                [Segment(partition: 1, chunk: 7, ordinals: [12, 13])],
            ]
        )
    }

    @Test func `Gathering stops at the limit of units and returns the cursor to continue from`() {
        var gathering = Gathering(recipientsMax: 2)
        #expect(gathering.add(ChunkSet([1, 3, 5, 7, 9]), partition: 0, chunk: 0, from: 2, unitsMax: 1) == 7)
        #expect(gathering.units == [[Segment(partition: 0, chunk: 0, ordinals: [3, 5])]])
        var next = Gathering(recipientsMax: 2)
        #expect(next.add(ChunkSet([1, 3, 5, 7, 9]), partition: 0, chunk: 0, from: 7, unitsMax: 1) == nil)
        #expect(next.units == [[Segment(partition: 0, chunk: 0, ordinals: [7, 9])]])
    }
}

@Suite struct ScanPositionTests {
    private func places(_ position: ScanPosition, _ count: Int = 3, silent: Set<Int> = []) -> [ScanPosition.Place] {
        position.places(atMost: count, of: 5) { silent.contains($0) }
    }

    @Test func `A skipped partition is visited after the last one, from the place where it was left`() {
        var position = ScanPosition()
        #expect(self.places(position) == [.init(partition: 0), .init(partition: 1), .init(partition: 2)])
        position.finish(0)
        position.skip(.init(partition: 1))
        position.reach(.init(partition: 2, chunk: 1, ordinal: 7))
        #expect(position.text == "scan:0:2:1:7:1")
        #expect(self.places(position, 1) == [.init(partition: 2, chunk: 1, ordinal: 7)])
        position.skip(.init(partition: 2, chunk: 2))
        position.finish(3)
        #expect(self.places(position) == [.init(partition: 4)])
        position.finish(4)
        #expect(position.text == "scan:0:5:0:0:1,2.2.0" && !position.isComplete(of: 5))
        #expect(self.places(position) == [.init(partition: 1), .init(partition: 2, chunk: 2)])
        #expect(self.places(position, silent: [1]) == [.init(partition: 2, chunk: 2)])
        #expect(self.places(position, silent: [1, 2]).isEmpty)
        // A partition that is still away stays where it was; a place that was reached on the way is kept.
        position.skip(.init(partition: 1))
        position.reach(.init(partition: 2, chunk: 2, ordinal: 9))
        #expect(position.text == "scan:0:5:0:0:1,2.2.9")
        position.finish(2)
        position.finish(1)
        #expect(position.isComplete(of: 5))
        position.beginNextRoute()
        #expect(position.text == "scan:1:0:0:0")
    }

    @Test func `Whatever is away and when, every partition is visited once`() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            var position = ScanPosition()
            var visits = [Int](repeating: 0, count: 40)
            while !position.isComplete(of: visits.count) {
                let away = Set((0..<visits.count).filter { _ in UInt8.random(in: 0..<3, using: &random) == 0 })
                let places = position.places(atMost: 8, of: visits.count) { away.contains($0) }
                for place in places {
                    if away.contains(place.partition) {
                        position.skip(place)
                    } else {
                        visits[place.partition] += 1
                        position.finish(place.partition)
                    }
                }
                // Another dispatcher goes on from the text.
                position = ScanPosition(text: position.text) ?? position
            }
            #expect(visits.allSatisfy { $0 == 1 })
        }
    }
}

@Suite struct PlanShareTests {
    @Test func `Every recipient belongs to one plan, and recipients without a route to the first`() {
        let routes = [RouteNumber(2), RouteNumber(5)]
        let (first, second) = (PlanShare(route: routes[0], routes: routes), PlanShare(route: routes[1], routes: routes))
        for number in [RouteNumber(2), RouteNumber(5), RouteNumber(9), nil] {
            let parts = [first.part(of: number), second.part(of: number)]
            #expect(parts.count { $0 != .others } == 1)
            #expect(parts[1] != .nobodys)
        }
        #expect(first.part(of: RouteNumber(2)) == .mine && second.part(of: RouteNumber(5)) == .mine)
        #expect(first.part(of: RouteNumber(9)) == .nobodys && first.part(of: nil) == .nobodys)
    }
}

@Suite struct IntakeDecisionTests {
    private static let providers = ProviderList(BuiltInProviders.all)

    private let now = UnixMilliseconds(1_750_000_000_000)

    private func decide(_ target: Target, _ change: (inout SendCommand) -> Void = { _ in }) throws -> IntakeDecision {
        var notification = Notification()
        notification.title = "Hi"
        var command = SendCommand(app: "shop", target: target, notification: notification)
        change(&command)
        return IntakeDecision(message: try command.encode(), now: self.now, providers: Self.providers)
    }

    private func code(_ decision: IntakeDecision) -> String {
        guard case .refuse(_, let problem, _) = decision else { return "taken" }
        return problem.code
    }

    @Test func `Few recipients are sent to directly, audiences and later times are planned`() throws {
        guard case .direct = try self.decide(.devices(["d1"])) else { throw NotExpected() }
        guard case .direct = try self.decide(.users((0..<32).map { "u\($0)" })) else { throw NotExpected() }
        guard case .plan(_, due: nil) = try self.decide(.users((0..<33).map { "u\($0)" })) else { throw NotExpected() }
        guard case .plan(_, due: nil) = try self.decide(.topic("news")) else { throw NotExpected() }
        let later = self.now.advanced(byMilliseconds: 60_000)
        guard case .plan(_, due: later) = try self.decide(.devices(["d1"]), { $0.notBefore = later }) else {
            throw NotExpected()
        }
        // A recipient of an at-most-once send needs a journal.
        guard case .plan(_, due: nil) = try self.decide(.devices(["d1"]), { $0.delivery = .atMostOnce }) else {
            throw NotExpected()
        }
        let counting = { (command: inout SendCommand) in command.notification.badge = .increment(1) }
        guard case .direct = try self.decide(.devices(["d1"]), counting) else { throw NotExpected() }
        let past = self.now.advanced(byMilliseconds: -StreamLimits.clockSkewMaxMilliseconds)
        guard case .direct = try self.decide(.devices(["d1"]), { $0.notBefore = past }) else { throw NotExpected() }
    }

    @Test func `Redis' clock decides whether a time has come, unless it had come when the command was written`() throws
    {
        // By this machine's clock it has come; Redis' may be behind.
        let time = self.now.advanced(byMilliseconds: -10_000)
        guard case .plan(_, due: time) = try self.decide(.devices(["d1"]), { $0.notBefore = time }) else {
            throw NotExpected()
        }
        var command = SendCommand(app: "shop", target: .devices(["d1"]), notification: Notification())
        command.notBefore = time
        func decide(writtenAt: UnixMilliseconds) throws -> IntakeDecision {
            IntakeDecision(
                message: try command.encode(),
                writtenAt: writtenAt,
                now: self.now,
                providers: Self.providers
            )
        }
        guard case .direct = try decide(writtenAt: time) else { throw NotExpected() }
        guard case .plan(_, due: time) = try decide(writtenAt: time.advanced(byMilliseconds: -1)) else {
            throw NotExpected()
        }
    }

    @Test func `A command that would be kept for longer than a year is refused`() throws {
        let last = self.now.advanced(
            byMilliseconds: Limits.notBeforeMilliseconds + StreamLimits.clockSkewMaxMilliseconds
        )
        guard case .plan(_, due: last) = try self.decide(.topic("news"), { $0.notBefore = last }) else {
            throw NotExpected()
        }
        let later = try self.decide(.topic("news")) { $0.notBefore = last.advanced(byMilliseconds: 1) }
        #expect(self.code(later) == "too_late")
    }

    @Test func `An entry whose id is ahead of the clock, which went back, begins no scheduled send`() throws {
        let time = self.now.advanced(byMilliseconds: 1_800_000)
        var command = SendCommand(app: "shop", target: .devices(["d1"]), notification: Notification())
        command.notBefore = time
        let decision = IntakeDecision(
            message: try command.encode(),
            writtenAt: self.now.advanced(byMilliseconds: 3_600_000),
            now: self.now,
            providers: Self.providers
        )
        guard case .plan(_, due: time) = decision else { throw NotExpected() }
    }

    @Test func `An entry without the field of the message is told so`() throws {
        let decision = IntakeDecision(message: [], now: self.now, providers: Self.providers)
        guard case .refuse(.malformed, let problem, _) = decision else { throw NotExpected() }
        #expect("\(problem)" == "the entry has no field m, with the message")
    }

    @Test func `A refusal names its publisher as far as the command can be read`() throws {
        var command = SendCommand(app: "shop", target: .condition("(("), notification: Notification())
        command.id = "order-17"
        command.replyTo = "apus:receipts:shop"
        command.idempotencyKey = "key"
        let whole = try command.encode()
        let invalid = IntakeDecision(message: whole, now: self.now, providers: Self.providers)
        let malformed = IntakeDecision(message: whole + [0x22], now: self.now, providers: Self.providers)
        for (decision, cause) in [(invalid, DeadLetter.Cause.invalid), (malformed, .malformed)] {
            guard case .refuse(cause, _, let head) = decision else { throw NotExpected() }
            #expect(head == CommandHead(command))
        }
        // A stream that is no publisher's, and an app that can be none, are nobody's.
        command.replyTo = "elsewhere"
        command.app = "no app"
        let strange = IntakeDecision(message: try command.encode(), now: self.now, providers: Self.providers)
        guard case .refuse(.invalid, _, let head) = strange else { throw NotExpected() }
        #expect(head.replyTo.isEmpty && head.app.isEmpty && head.id == "order-17")
    }

    @Test func `The owner of a mailbox publishes for its apps, and its receipts stay in its streams`() throws {
        let owner = PublisherRules(name: try PublisherName("shop-1"), apps: [try AppID("shop"), try AppID("blog")])
        func decide(
            app: String = "shop",
            replyTo: String = "",
            damage: [UInt8] = [],
        ) throws -> IntakeDecision {
            var command = SendCommand(app: app, target: .devices(["d1"]), notification: Notification())
            command.id = "order-17"
            command.replyTo = replyTo
            let message = try command.encode() + damage
            return IntakeDecision(message: message, now: self.now, providers: Self.providers, publisher: owner)
        }
        for (replyTo, used) in [
            ("", "apus:receipts:shop-1"), ("apus:receipts:shop-1", "apus:receipts:shop-1"),
            ("apus:receipts:shop-1:orders", "apus:receipts:shop-1:orders"),
        ] {
            guard case .direct(let command) = try decide(replyTo: replyTo) else { throw NotExpected() }
            #expect(command.replyTo == used)
        }
        guard case .direct = try decide(app: "blog") else { throw NotExpected() }
        for (decision, field) in [
            (try decide(app: "bank"), "app"),
            (try decide(replyTo: "apus:receipts:shop-12"), "reply_to"),
            (try decide(replyTo: "apus:receipts:bank"), "reply_to"),
            (try decide(replyTo: "apus:receipts:"), "reply_to"), (try decide(replyTo: "elsewhere"), "reply_to"),
        ] {
            guard case .refuse(.invalid, let problem, let head) = decision else { throw NotExpected() }
            #expect(problem.code == "not_permitted" && problem.field == field)
            #expect(head.replyTo == "apus:receipts:shop-1")
        }
        // The writer is told of a command that cannot be decoded, and nobody else.
        guard case .refuse(.malformed, _, let head) = try decide(replyTo: "apus:receipts:bank", damage: [0x22]) else {
            throw NotExpected()
        }
        #expect(head.replyTo == "apus:receipts:shop-1" && head.id == "order-17")
    }

    @Test func `A publisher that has left the configuration may publish for no app`() throws {
        let (shop, name) = (try AppID("shop"), try PublisherName("shop-1"))
        func settings(_ apps: Set<AppID>) throws -> [PublisherName: PublisherSettings] {
            let list = apps.map(\.text).sorted().joined(separator: ", ")
            let file = "apps: {shop: {}, blog: {}}\npublishers: {shop-1: {apps: [\(list)]}}\n"
            let folder = try TemporaryFolder()
            let source = SettingsSource(file: try folder.write("apus.yaml", file), environment: [:])
            return try source.loadCommon().publishers
        }
        let table = PublisherTable(try settings([shop]))
        #expect(table.names == [name] && table[name].apps == [shop])
        table.update(try settings([try AppID("blog")]))
        #expect(table[name].apps == [try AppID("blog")])
        table.update([:])
        #expect(table.names == [name] && table[name].apps.isEmpty)
        let later = PublisherTable([:], former: [name])
        #expect(later.names == [name] && later.configured.isEmpty && later[name].apps.isEmpty)
        var command = SendCommand(app: "shop", target: .devices(["d1"]), notification: Notification())
        command.id = "order-17"
        let rules = table[name]
        let problem = #expect(throws: Problem.self) { try rules.permitted(command) }
        #expect(problem?.detail == "the publisher shop-1 may publish for no app")
    }

    @Test func `A message that would be too late expires`() throws {
        let second = self.now.advanced(byMilliseconds: 1_000)
        for target in [Target.topic("news"), .devices(["d1"])] {
            guard case .expired = try self.decide(target, { $0.notification.expiry = .at(self.now) }) else {
                throw NotExpected()
            }
            let early = try self.decide(target) {
                $0.notification.expiry = .at(second)
                $0.notBefore = second
            }
            guard case .expired = early else { throw NotExpected() }
        }
        guard case .direct = try self.decide(.devices(["d1"]), { $0.notification.expiry = .at(second) }) else {
            throw NotExpected()
        }
    }

    @Test(arguments: [Notification.Kind.voip, .pushToTalk, .alert])
    func `A message that allows one attempt expires a minute after its publication or start`(
        kind: Notification.Kind
    ) throws {
        let minute = Notification.Expiry.oneAttemptGraceMilliseconds
        func decide(
            publishedAt: UnixMilliseconds?,
            notBefore: UnixMilliseconds? = nil,
            writtenAt: UnixMilliseconds? = nil,
        ) throws -> IntakeDecision {
            var command = SendCommand(app: "shop", target: .devices(["d1"]), notification: Notification())
            command.notification.kind = kind
            // A call and push to talk allow one attempt without an expiry.
            if kind == .alert { command.notification.expiry = .ttl(milliseconds: 0) }
            if let publishedAt { command.publishedAtNanoseconds = publishedAt.value * 1_000_000 }
            command.notBefore = notBefore
            return IntakeDecision(
                message: try command.encode(),
                writtenAt: writtenAt,
                now: self.now,
                providers: Self.providers
            )
        }
        let last = self.now.advanced(byMilliseconds: 1 - minute)
        let over = self.now.advanced(byMilliseconds: -minute)
        guard case .direct(let taken) = try decide(publishedAt: last) else { throw NotExpected() }
        #expect(taken.deadline(now: self.now) == self.now.advanced(byMilliseconds: 1))
        guard case .expired = try decide(publishedAt: over) else { throw NotExpected() }
        // Without a time it counts from its entry in Redis.
        guard case .direct = try decide(publishedAt: nil, writtenAt: last) else { throw NotExpected() }
        guard case .expired = try decide(publishedAt: nil, writtenAt: over) else { throw NotExpected() }
        // So does one whose publisher's clock is behind.
        guard case .direct(let behind) = try decide(publishedAt: over, writtenAt: last) else { throw NotExpected() }
        #expect(behind.deadline(now: self.now) == self.now.advanced(byMilliseconds: 1))
        // A later start counts, and so does a publisher's clock that is ahead.
        let later = self.now.advanced(byMilliseconds: 3_600_000)
        guard case .plan(let held, due: later) = try decide(publishedAt: over, notBefore: later) else {
            throw NotExpected()
        }
        #expect(held.deadline(now: self.now) == later.advanced(byMilliseconds: minute))
        guard case .direct(let ahead) = try decide(publishedAt: later) else { throw NotExpected() }
        #expect(ahead.deadline(now: self.now) == later.advanced(byMilliseconds: minute))
    }

    @Test func `Without an expiry only a call and push to talk expire`() {
        for kind in Notification.Kind.allCases {
            var command = SendCommand(app: "shop", target: .devices(["d1"]), notification: Notification())
            command.notification.kind = kind
            let isShort = kind == .voip || kind == .pushToTalk
            #expect((command.deadline(now: self.now) != nil) == isShort, "\(kind)")
            // A send to an audience may take longer by its size.
            command.target = .topic("news")
            #expect((command.deadline(now: self.now) != nil) == isShort, "\(kind)")
            command.notification.expiry = .ttl(milliseconds: 0)
            #expect((command.deadline(now: self.now) != nil) == isShort, "\(kind)")
            command.notification.expiry = .ttl(milliseconds: 30_000)
            #expect(command.deadline(now: self.now) == self.now.advanced(byMilliseconds: 30_000))
        }
    }

    @Test func `The time to live of a command without a time counts from its entry in Redis, at every delivery`() throws
    {
        var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
        command.notification.expiry = .ttl(milliseconds: 60_000)
        let written = self.now.advanced(byMilliseconds: -59_000)
        func decide(_ now: UnixMilliseconds) throws -> IntakeDecision {
            IntakeDecision(
                message: try command.encode(),
                writtenAt: written,
                now: now,
                providers: Self.providers
            )
        }
        let end = written.advanced(byMilliseconds: 60_000)
        guard case .plan(let first, due: nil) = try decide(self.now) else { throw NotExpected() }
        let justBefore = end.advanced(byMilliseconds: -1)
        guard case .plan(let again, due: nil) = try decide(justBefore) else { throw NotExpected() }
        for taken in [first, again] {
            #expect(taken.publishedAt(now: end) == written && taken.deadline(now: end) == end)
        }
        guard case .expired = try decide(end) else { throw NotExpected() }
        // A clock of Redis' that is ahead does not lengthen it, and the publisher's own time stands.
        let ahead = IntakeDecision(
            message: try command.encode(),
            writtenAt: end,
            now: self.now,
            providers: Self.providers
        )
        guard case .plan(let early, due: nil) = ahead else { throw NotExpected() }
        #expect(early.publishedAt(now: end) == self.now)
        command.publishedAtNanoseconds = self.now.value * 1_000_000
        guard case .plan(let own, due: nil) = try decide(self.now) else { throw NotExpected() }
        #expect(own.publishedAt(now: end) == self.now)
    }

    @Test func `A time of publication in milliseconds is refused as such`() throws {
        var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
        command.publishedAtNanoseconds = self.now.value
        let decision = IntakeDecision(message: try command.encode(), now: self.now, providers: Self.providers)
        guard case .refuse(.invalid, let problem, _) = decision else { throw NotExpected() }
        #expect(problem.field == "published_at_ns" && problem.detail.contains("looks like milliseconds"))
    }

    @Test func `Any bytes that are not a command are malformed`() {
        for bytes in [[], [0xff], [0x0a, 0x05, 0x61], Array(repeating: 0x08, count: 300)] as [[UInt8]] {
            #expect(self.code(IntakeDecision(message: bytes, now: self.now, providers: Self.providers)) == "malformed")
        }
    }

    @Test func `D72 A command with two targets, or with none, is malformed, and the field is named`() throws {
        let head: [UInt8] = [0x12, 0x01, 0x61]
        for (target, field) in [
            ([0x22, 0x01, 0x61, 0x42, 0x01, 0x62], "target.fcm_topic"), ([], "target"),
        ] as [([UInt8], String)] {
            let bytes = head + [0x1a, UInt8(target.count)] + target + [0x22, 0x00]
            guard
                case .refuse(.malformed, let problem, _) = IntakeDecision(
                    message: bytes,
                    now: self.now,
                    providers: Self.providers
                )
            else {
                throw NotExpected()
            }
            #expect(problem.code == "malformed" && problem.field == field)
        }
    }

    @Test func `Each broken rule has its code`() throws {
        #expect(try self.code(self.decide(.topic("news"), { $0.app = "Shop!" })) == "invalid_app")
        #expect(try self.code(self.decide(.topic("news"), { $0.id = "a b" })) == "invalid_id")
        #expect(try self.code(self.decide(.topic("news"), { $0.replyTo = "other:stream" })) == "invalid_reply_to")
        #expect(try self.code(self.decide(.topic("no spaces"))) == "invalid_topic")
        #expect(try self.code(self.decide(.condition("'a' in"))) == "invalid_condition")
        #expect(try self.code(self.decide(.expression("locale = 'en'"))) == "invalid_expression")
        guard case .plan(_, due: nil) = try self.decide(.expression("locale == 'en'")) else { throw NotExpected() }
        #expect(try self.code(self.decide(.devices(["d 1"]))) == "invalid_device")
        guard case .dryRun = try self.decide(.fcmTopic("news"), { $0.dryRun = true }) else { throw NotExpected() }
        #expect(try self.code(self.decide(.fcmTopic("news!"))) == "invalid_value")
        #expect(try self.code(self.decide(.fcmCondition("'a' in"))) == "invalid_value")
        let channel = Target.apnsChannel(id: "two words", environment: .production, storesLatest: false)
        #expect(try self.code(self.decide(channel)) == "invalid_value")
        let address = Address(provider: .fcm, token: "t")
        let counted = try self.decide(.addresses([address])) { $0.notification.badge = .increment(1) }
        #expect(self.code(counted) == "contradiction")
        var call = address
        call.kind = .voip
        #expect(try self.code(self.decide(.addresses([address, call]))) == "invalid_kind")
    }
}

private struct NotExpected: Error {}
