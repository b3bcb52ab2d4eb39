import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Synchronization
import Testing

/// Tests that nobody gets a message that is not for them any more, however long it waited.
@Suite(.serialized) struct AudienceExactTests {
    /// The time that a dispatcher of these tests relies on what it has read.
    private static let recheckAfter: Int64 = 1_000
    /// The additional time that a busy machine may take from reading a recipient to its request.
    private static let underWayMax: Int64 = 2_000

    private static func route(_ fleet: Fleet, _ provider: Provider) async throws -> RouteNumber {
        try await fleet.installation.streams.routes.number(
            of: Route(app: try AppID(Fleet.app), provider: provider, environment: .production)
        )
    }

    private static func dispatcher(_ fleet: Fleet) async throws -> ServiceProcess {
        try await fleet.startDispatcher(["lease": "2s", "recheck_after": "\(Self.recheckAfter)ms"])
    }

    /// A device remembers the last eight sends that were counted. More of them must not be looked for there.
    @Test func `Direct sends that waited on a paused route count once each in a badge`() async throws {
        try await Fleet.with { fleet in
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let routes = fleet.installation.streams.routes
            let device = try #require(try await fleet.register(1, providers: [.apns], user: { _ in "ann" }).first)
            let route = try await Self.route(fleet, .apns)
            try await routes.control(route, .pause)
            let dispatcher = try await Self.dispatcher(fleet)
            let feedback = try await fleet.startFeedback()
            let sends = (0..<12).map { "badge-\($0)" }
            for send in sends {
                try await fleet.send(.devices([device.id]), id: send, lane: .express) {
                    $0.notification.badge = .increment(1)
                }
            }
            for send in sends {
                try await eventually("\(send) waits") { try await fleet.ledger(of: send) != nil }
            }
            try await routes.control(route, .resume)
            try await eventually("all are sent") {
                sends.allSatisfy { fleet.accepted(of: $0) == [device.ledgerToken: 1] }
            }
            let stored = try #require(try await store.devices(app, ofUser: try UserID("ann")).first)
            #expect(try await store.badge(of: stored) == 12)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: [Provider.apns, .webpush])
    func `A message that waited on a paused route does not reach devices that changed user, left or are gone`(
        provider: Provider
    ) async throws {
        try await Fleet.with(hasWebPush: provider == .webpush) { fleet in
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let routes = fleet.installation.streams.routes
            let devices = try await fleet.register(
                6,
                providers: [provider],
                topics: { _ in ["news"] },
                user: { _ in "ann" },
            )
            let tokens = devices.map(\.ledgerToken)
            let ids = try devices.map { try DeviceID($0.id) }
            let route = try await Self.route(fleet, provider)
            try await routes.control(route, .pause)
            let dispatcher = try await Self.dispatcher(fleet)
            let feedback = try await fleet.startFeedback()
            for lane in Lane.allCases {
                try await fleet.send(.users(["ann"]), id: "user-\(lane)", lane: lane)
                try await fleet.send(.devices(devices.map(\.id)), id: "devices-\(lane)", lane: lane)
                try await fleet.send(.topic("news"), id: "topic-\(lane)", lane: lane)
                // Nobody has ever been in the second one.
                let condition = "'news' in topics && !('quiet' in topics)"
                try await fleet.send(.condition(condition), id: "condition-\(lane)", lane: lane)
            }
            let sends = Lane.allCases.flatMap { lane in
                ["user", "devices", "topic", "condition"].map { "\($0)-\(lane)" }
            }
            for send in sends {
                try await eventually("\(send) is planned") {
                    try await fleet.ledger(of: send).map { !$0.isPlanning && $0.planned == 6 } ?? false
                }
            }
            // Loaded, and waiting for the route: nothing tells of it from outside but time.
            try await Task.sleep(for: .milliseconds(500))
            _ = try await store.bindUser(app, ids[0], try UserID("bob"))
            _ = try await store.unbindUser(app, ids[1])
            _ = try await store.delete(app, ids[2])
            _ = try await store.unsubscribe(app, ids[3], from: ["news"])
            var new = SampleDevice(app: "another", index: 0, providers: [provider])
            new.id = devices[4].id
            _ = try await store.subscribe(app, ids[5], to: ["quiet"])
            var moved = new.registration
            moved.user = "ann"
            _ = try await store.register(app, moved)
            #expect(fleet.simulator.ledger.snapshot.count == 0)
            try await Task.sleep(for: .milliseconds(Self.recheckAfter + 200))
            try await routes.control(route, .resume)
            for send in sends {
                let ledger = try await fleet.completion(of: send)
                let expected: Set<String> =
                    switch send.prefix(4) {
                    case "user": [tokens[3], new.ledgerToken, tokens[5]]
                    case "devi": [tokens[0], tokens[1], tokens[3], new.ledgerToken, tokens[5]]
                    case "cond": [tokens[0], tokens[1], new.ledgerToken]
                    default: [tokens[0], tokens[1], new.ledgerToken, tokens[5]]
                    }
                #expect(Comparison(accepted: fleet.accepted(of: send), audience: expected) == .exact, "\(send)")
                #expect(ledger.total(.accepted) == UInt64(expected.count), "\(send)")
                #expect(ledger.total(.skipped) == UInt64(6 - expected.count), "\(send)")
            }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// The requests wait in the dispatcher for a connection, and then in Redis for their retry.
    @Test func `A message that waits for its push service does not reach browsers that left meanwhile`() async throws {
        try await Fleet.with(hasWebPush: true) { fleet in
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let browsers = try await fleet.register(
                8,
                providers: [.webpush],
                topics: { _ in ["news"] },
                user: { _ in "ann" },
            )
            let ids = try browsers.map { try DeviceID($0.id) }
            try await fleet.simulator.setListening(false, at: .webpush)
            let dispatcher = try await Self.dispatcher(fleet)
            let feedback = try await fleet.startFeedback()
            for lane in Lane.allCases {
                try await fleet.send(.users(["ann"]), id: "user-\(lane)", lane: lane)
                try await fleet.send(.topic("news"), id: "topic-\(lane)", lane: lane)
            }
            let sends = Lane.allCases.flatMap { lane in ["user-\(lane)", "topic-\(lane)"] }
            for send in sends {
                try await eventually("\(send) is planned") {
                    try await fleet.ledger(of: send).map { !$0.isPlanning && $0.planned == 8 } ?? false
                }
            }
            try await eventually("a connection was refused") {
                try await dispatcher.metric("apus_provider_connection_attempts_total", #"outcome="tcp""#) >= 1
            }
            _ = try await store.bindUser(app, ids[0], try UserID("bob"))
            _ = try await store.unsubscribe(app, ids[1], from: ["news"])
            _ = try await store.delete(app, ids[2])
            try await Task.sleep(for: .milliseconds(Self.recheckAfter + 200))
            #expect(fleet.simulator.ledger.snapshot.count == 0)
            try await fleet.simulator.setListening(true, at: .webpush)
            for send in sends {
                let ledger = try await fleet.completion(of: send) { try await fleet.makeRetriesDueSlowly() }
                let missing = send.hasPrefix("user") ? [0, 2] : [1, 2]
                let expected = Set(browsers.indices.filter { !missing.contains($0) }.map { browsers[$0].ledgerToken })
                #expect(Comparison(accepted: fleet.accepted(of: send), audience: expected) == .exact, "\(send)")
                #expect(ledger.total(.accepted) == 6 && ledger.total(.skipped) == 2, "\(send)")
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A device that is named twice is one recipient`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2, providers: [.apns], user: { _ in "ann" })
            let dispatcher = try await Self.dispatcher(fleet)
            let feedback = try await fleet.startFeedback()
            let (one, other) = (devices[0], devices[1])
            try await fleet.send(.devices([one.id, other.id, one.id]), id: "devices")
            try await fleet.send(.users(["ann", "ann"]), id: "users", lane: .express)
            // More than go out directly.
            try await fleet.send(.devices((0..<200).map { _ in one.id }), id: "planned")
            let address = Address(provider: .apns, token: one.token)
            try await fleet.send(.addresses([address, address]), id: "addresses")
            let last = Address(provider: .apns, token: other.token)
            // Few go out directly, more by a plan.
            let places = ["few": 2, "many": 40]
            for (send, index) in places {
                try await fleet.send(.addresses(Array(repeating: address, count: index) + [last]), id: send) {
                    $0.receiptLevel = .recipients
                }
            }
            for (send, count) in [
                ("devices", 2), ("users", 2), ("planned", 1), ("addresses", 1), ("few", 2), ("many", 2),
            ] {
                try await eventually("\(send) is told") {
                    try await fleet.receipts(of: send).contains { $0.kind == .final && $0.planned == UInt64(count) }
                }
                let accepted = fleet.accepted(of: send)
                #expect(accepted.count == count && accepted.values.allSatisfy { $0 == 1 }, "\(send)")
            }
            for (send, index) in places {
                var told: [RecipientPlace] = []
                try await eventually("\(send) is told one by one") {
                    told = try await fleet.receipts(of: send).flatMap { $0.recipients.map(\.place) }
                    return told.count >= 2
                }
                #expect(told.count == 2 && Set(told) == [.address(0), .address(UInt32(index))], "\(send)")
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Besides what the population changes: routes are paused and resumed, retries made due, sends cancelled, and a dispatcher, feedback and
    /// Redis killed, which keeps what it has acknowledged.
    @Test func `Through logins, moves, deletes, pauses, rates, retries and kills nobody gets another's message`()
        async throws
    {
        var faults = FaultPlan(seed: 7)
        faults.apns.unavailable = 0.1
        faults.fcm.unavailable = 0.1
        faults.webpush.unavailable = 0.1
        faults.apns.goAwayAfterRequests = 50
        let seed = UInt64.random(in: .min ... .max)
        try await Fleet.with(faults: faults, isAppendOnly: true, hasWebPush: true) { fleet in
            let population = try await Population(fleet, seed: seed, count: 60)
            var dispatcher = try await Self.dispatcher(fleet)
            var feedback = try await fleet.startFeedback(lease: "2s")
            var routes: [RouteNumber] = []
            for provider in Population.providers { routes.append(try await Self.route(fleet, provider)) }
            var generator = SeededGenerator(seed: seed)
            for round in 0..<160 {
                for _ in 0..<2 { try await population.change(&generator) }
                if round.isMultiple(of: 2) { try await population.send(round, &generator) }
                let route = routes[Int.random(in: routes.indices, using: &generator)]
                switch round % 20 {
                case 3: try await fleet.installation.streams.routes.control(route, .pause)
                case 19: for route in routes { try await fleet.installation.streams.routes.control(route, .resume) }
                case 10: try await fleet.makeRetriesDue()
                case 12: try await population.cancelLast()
                case 15 where round > 40:
                    await dispatcher.kill()
                    dispatcher = try await Self.dispatcher(fleet)
                case 7 where round > 40 && round % 40 == 7:
                    await feedback.kill()
                    feedback = try await fleet.startFeedback(lease: "2s")
                case 7 where round > 40:
                    await fleet.redis.kill()
                    try await fleet.redis.restart()
                default: break
                }
                try await Task.sleep(for: .milliseconds(120))
            }
            for send in population.sends {
                try await eventually("\(send.id) has its final receipt", timeout: .seconds(180)) {
                    try await fleet.makeRetriesDue()
                    return try await fleet.receipts(of: send.id).contains { $0.kind == .final }
                }
            }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            let wrong = population.wrong(within: Self.recheckAfter + Self.underWayMax)
            #expect(wrong == [], "seed \(seed)")
            let lost = try await population.lost()
            #expect(lost == [], "seed \(seed)")
            let repeated = population.repeated()
            #expect(repeated == [], "seed \(seed)")
            for send in population.sends {
                let final = try await fleet.receipts(of: send.id).last { $0.kind == .final }
                let counted = final?.counts.reduce(0) { $0 + $1.count }
                #expect(counted == final?.planned, "\(send.id), seed \(seed)")
            }
            #expect(population.acceptedCount > 200, "the test must send")
            #expect(fleet.simulator.ledger.snapshot.summary.count(.webpush, status: 201) > 50, "to browsers, too")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}

/// Devices that change owners, tokens and topics while sends to them wait, with what each was at any time.
private final class Population {
    /// A device as it was for a while.
    struct Period {
        /// The beginning of the change that made it, and the end of the one that ended it: nanoseconds since 1970.
        var from: Int64
        var until = Int64.max
        /// Empty: the device is gone.
        var token: String
        var user = ""
        var topics: Set<String> = []
    }

    struct Send {
        var id: String
        var target: Target
        var publishedAt: Int64
        var isAtMostOnce = false
        var isCancelled = false
    }

    private let fleet: Fleet
    private let app: AppID
    private var periods: [[Period]]
    private var tokenCount: Int
    private(set) var sends: [Send] = []
    private static let users = (0..<8).map { "user-\($0)" }
    private static let topics = ["news", "sport"]
    /// The providers of the devices, in turn.
    static let providers: [Provider] = [.apns, .fcm, .webpush]

    init(_ fleet: Fleet, seed: UInt64, count: Int) async throws {
        self.fleet = fleet
        self.app = try AppID(Fleet.app)
        self.tokenCount = count
        let (users, now) = (Self.users, fleet.clock.nanosecondsSince1970())
        let devices = try await fleet.register(
            count,
            providers: Self.providers,
            topics: { _ in ["news"] },
            user: { users[$0 % users.count] },
        )
        self.periods = devices.enumerated().map { index, device in
            [Period(from: now, token: device.token, user: users[index % users.count], topics: ["news"])]
        }
    }

    private static func sample(_ index: Int) -> SampleDevice {
        SampleDevice(app: Fleet.app, index: index, providers: Self.providers)
    }

    private func id(_ index: Int) -> String { Self.sample(index).id }

    /// Makes one device somebody else's, moves its token, changes its topics, deletes it or brings it back, or lets it take another's token.
    func change(_ generator: inout SeededGenerator) async throws {
        // The last third stays as it is: none of its sends may be lost.
        let index = Int.random(in: 0..<self.periods.count * 2 / 3, using: &generator)
        let device = try DeviceID(self.id(index))
        let store = self.fleet.installation.store
        guard var period = self.periods[index].last else { return }
        period.from = self.fleet.clock.nanosecondsSince1970()
        var loser: Int?
        switch Int.random(in: (period.token.isEmpty ? 5 : 0)..<7, using: &generator) {
        case 0, 1:
            period.user = Self.users.randomElement(using: &generator) ?? ""
            _ = try await store.bindUser(self.app, device, try UserID(period.user))
        case 2:
            period.user = ""
            _ = try await store.unbindUser(self.app, device)
        case 3:
            let topic = Self.topics.randomElement(using: &generator) ?? ""
            if period.topics.remove(topic) != nil {
                _ = try await store.unsubscribe(self.app, device, from: [topic])
            } else {
                period.topics.insert(topic)
                _ = try await store.subscribe(self.app, device, to: [topic])
            }
        case 4:
            period.token = ""
            _ = try await store.delete(self.app, device)
        case 5:
            // The app is installed again and has a new id, or the phone was sold: whoever had the token is forgotten.
            let others = (0..<self.periods.count * 2 / 3).filter {
                $0 != index && Self.sample($0).provider == Self.sample(index).provider
                    && self.periods[$0].last?.token.isEmpty == false
            }
            guard let other = others.randomElement(using: &generator) else { return }
            loser = other
            period.token = self.periods[other].last?.token ?? ""
            try await self.register(index, period)
        default:
            let count = Self.providers.count
            self.tokenCount += count
            // Of the same provider as before.
            period.token = Self.sample(self.tokenCount + index % count - self.tokenCount % count).token
            try await self.register(index, period)
        }
        self.begin(period, of: index)
        if let loser { self.begin(Period(from: period.from, token: ""), of: loser) }
    }

    private func begin(_ period: Period, of index: Int) {
        self.periods[index][self.periods[index].count - 1].until = self.fleet.clock.nanosecondsSince1970()
        self.periods[index].append(period)
    }

    private func register(_ index: Int, _ period: Period) async throws {
        var sample = Self.sample(index)
        sample.token = period.token
        var registration = sample.registration
        registration.user = period.user
        registration.topics = period.topics.sorted()
        _ = try await self.fleet.installation.store.register(self.app, registration)
    }

    /// Publishes a send of some kind to some of them.
    func send(_ number: Int, _ generator: inout SeededGenerator) async throws {
        let target: Target =
            switch Int.random(in: 0..<7, using: &generator) {
            case 0: .users([Self.users.randomElement(using: &generator) ?? ""])
            case 1: .devices((0..<5).map { _ in self.id(Int.random(in: 0..<self.periods.count, using: &generator)) })
            case 2: .condition("'news' in topics && !('sport' in topics)")
            case 3: .expression("'news' in topics && user == 'user-3'")
            case 4: .everyone([])
            default: .topic(Self.topics.randomElement(using: &generator) ?? "")
            }
        let (id, rate) = ("send-\(number)", Int.random(in: 0..<3, using: &generator) == 0 ? 10 : 0)
        let isAtMostOnce = number % 6 == 4
        let publishedAt = self.fleet.clock.nanosecondsSince1970()
        try await self.fleet.send(target, id: id, lane: number % 4 == 0 ? .express : .bulk) { command in
            command.ratePerSecond = UInt32(rate)
            if isAtMostOnce { command.delivery = .atMostOnce }
        }
        self.sends.append(Send(id: id, target: target, publishedAt: publishedAt, isAtMostOnce: isAtMostOnce))
    }

    /// Cancels the last send; one that has ended, or goes out directly, cannot be.
    func cancelLast() async throws {
        let (control, id) = (self.fleet.installation.streams.control, self.sends[self.sends.count - 1].id)
        guard let found = try await control.find(app: Fleet.app, send: id) else { return }
        _ = try await control.apply(.cancel, to: SendKey(app: Fleet.app, id: id), at: found.places)
        self.sends[self.sends.count - 1].isCancelled = true
    }

    private func matches(_ target: Target, _ period: Period, _ index: Int) -> Bool {
        guard !period.token.isEmpty else { return false }
        return switch target {
        case .users(let users): users.contains(period.user)
        case .devices(let devices): devices.contains(self.id(index))
        case .condition: period.topics.contains("news") && !period.topics.contains("sport")
        case .topic(let topic): period.topics.contains(topic)
        case .expression: period.topics.contains("news") && period.user == "user-3"
        case .everyone: true
        default: false
        }
    }

    private func visitAccepted(_ body: (Send, String, Int64) -> Void) {
        let sends = Dictionary(uniqueKeysWithValues: self.sends.map { ($0.id, $0) })
        var tokens: [String: String] = [:]
        for (index, periods) in self.periods.enumerated() {
            var sample = Self.sample(index)
            for period in periods {
                sample.token = period.token
                tokens[sample.ledgerToken] = period.token
            }
        }
        self.fleet.simulator.ledger.snapshot.visit { entry in
            guard entry.isAccepted, let send = entry.send.flatMap({ sends[$0] }) else { return }
            body(send, tokens[entry.token] ?? entry.token, entry.timeNanoseconds)
        }
    }

    var acceptedCount: Int {
        var count = 0
        self.visitAccepted { _, _, _ in count += 1 }
        return count
    }

    /// Returns requests to a token whose device was not in the audience at any moment of so many milliseconds before.
    func wrong(within milliseconds: Int64) -> [String] {
        var wrong: [String] = []
        self.visitAccepted { send, token, time in
            let isMeant = self.periods.enumerated().contains { index, periods in
                periods.contains { period in
                    period.token == token && period.from <= time && period.until >= time - milliseconds * 1_000_000
                        && self.matches(send.target, period, index)
                }
            }
            guard !isMeant else { return }
            func after(_ time: Int64) -> String { "\((time - send.publishedAt) / 1_000_000) ms" }
            let periods = self.periods.first { $0.contains { $0.token == token } } ?? []
            let history = periods.map { "[\(after($0.from)) \($0.user) \($0.topics) \($0.token == token)]" }
            wrong.append("\(send.id) \(send.target) reached \(token) after \(after(time)): \(history.joined())")
        }
        return wrong
    }

    /// Requests that were accepted a second time though their send may go out once only. A token that two devices had one after the other
    /// is left out: each of them is a recipient.
    func repeated() -> [String] {
        var holders: [String: Int] = [:]
        for periods in self.periods {
            for token in Set(periods.map(\.token)) { holders[token, default: 0] += 1 }
        }
        var counts: [String: Int] = [:]
        self.visitAccepted { send, token, _ in
            if send.isAtMostOnce, holders[token] == 1 { counts["\(send.id) \(token)", default: 0] += 1 }
        }
        return counts.filter { $0.value > 1 }.keys.sorted()
    }

    /// Sends that did not reach a device that never changed and was meant. A cancelled one need not, nor one that may go out once only: its
    /// recipients that may have been sent to at a kill end as failed.
    func lost() async throws -> [String] {
        var reached: Set<String> = []
        self.visitAccepted { send, token, _ in reached.insert("\(send.id) \(token)") }
        return self.sends.filter { !$0.isCancelled && !$0.isAtMostOnce }.flatMap { send in
            self.periods.enumerated().compactMap { index, periods in
                guard periods.count == 1, self.matches(send.target, periods[0], index) else { return nil }
                let name = "\(send.id) \(periods[0].token)"
                return reached.contains(name) ? nil : name
            }
        }
    }
}
