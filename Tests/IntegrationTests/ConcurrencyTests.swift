import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusTLS
import ApusTestKit
import NIOPosix
import Synchronization
import Testing

/// Many clients change the same devices at once, while sends run and dead tokens are pruned.
@Suite(.serialized) struct ConcurrencyTests {
    private static let key = "concurrency"
    private static let clients = 100
    private static let devices = 1_000
    private static let steps = 40
    private static let users = 300

    /// Records a client's change of a device, which took effect between `start` and `end`, in nanoseconds since 1970.
    private struct DeviceChange: Sendable {
        var start: Int64
        /// `.max`: nobody knows whether it was done.
        var end: Int64
        /// The token that the device has since; nil: as before.
        var token: String?
        /// The user after the change; empty for nobody. Nil when it is as before, except for `left`.
        var user: String?
        /// The user that lost the device.
        var left: String?

        /// True when the device was not that user's any more.
        func leaves(_ other: String) -> Bool { self.left == other || self.user.map { $0 != other } ?? false }
    }

    /// A send to a user.
    private struct Publication: Sendable {
        var user: String
        /// Just before it was published, in nanoseconds since 1970.
        var at: Int64
    }

    /// All changes by device, the current token of each, and all sends to users.
    private final class Chronicle: Sendable {
        private struct State {
            var changes: [[DeviceChange]]
            var rotations: [Int]
            var publications: [String: Publication] = [:]
            var isOver = false
        }

        private let state: Mutex<State>

        init(_ devices: Int) {
            self.state = Mutex(
                State(changes: Array(repeating: [], count: devices), rotations: Array(repeating: 0, count: devices))
            )
        }

        func note(_ device: Int, _ change: DeviceChange) { self.state.withLock { $0.changes[device].append(change) } }

        /// The token that a device had last, or a new one.
        func token(_ device: Int, rotates: Bool) -> String {
            let rotation = self.state.withLock { state in
                if rotates { state.rotations[device] += 1 }
                return state.rotations[device]
            }
            var random = SeededGenerator(seed: UInt64(device) << 20 | UInt64(rotation))
            return Hexadecimal.encode((0..<32).map { _ in UInt8.random(in: 0...255, using: &random) })
        }

        func note(_ send: String, _ publication: Publication) {
            self.state.withLock { $0.publications[send] = publication }
        }

        func end() { self.state.withLock { $0.isOver = true } }

        var changes: [[DeviceChange]] { self.state.withLock { $0.changes } }
        var publications: [String: Publication] { self.state.withLock { $0.publications } }
        /// True when the clients have finished.
        var isOver: Bool { self.state.withLock { $0.isOver } }

        func changes(_ device: Int) -> [DeviceChange] { self.state.withLock { $0.changes[device] } }
    }

    /// One of the clients.
    private struct Client {
        let fleet: Fleet
        let chronicle: Chronicle
        let port: Int
        var random: SeededGenerator
        var unanswered = 0

        private mutating func pick(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self.random) }

        mutating func run() async throws {
            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: self.port,
                on: MultiThreadedEventLoopGroup.singleton
            )
            for _ in 0..<ConcurrencyTests.steps { try await self.step(connection) }
            await connection.close()
        }

        private mutating func step(_ connection: HTTPConnection) async throws {
            let device = self.pick(ConcurrencyTests.devices)
            let user = "user-\(self.pick(ConcurrencyTests.users))"
            switch self.pick(20) {
            case 0..<8:
                let owner = ["", user][self.pick(2)]
                // Now and then with a token that another device has.
                let token = self.chronicle.token(
                    self.pick(10) == 0 ? self.pick(ConcurrencyTests.devices) : device,
                    rotates: self.pick(3) == 0
                )
                let topics = self.pick(2) == 0 ? ",\"topics\":[\"all\",\"topic-\(self.pick(20))\"]" : ""
                let member = owner.isEmpty ? "" : ",\"user\":\"\(owner)\""
                let body = "{\"provider\":\"apns\",\"token\":\"\(token)\"\(member)\(topics)}"
                try await self.ask(connection, "PUT", "devices/d\(device)", body, device, token: token, user: owner)
            case 8..<11:
                try await self.ask(connection, "PUT", "users/\(user)/devices/d\(device)", "", device, user: user)
            case 11..<14:
                // Only if it is that user's: whoever had it last, as far as this client knows.
                let last = self.chronicle.changes(device).last { $0.user?.isEmpty == false }?.user ?? user
                try await self.ask(connection, "DELETE", "users/\(last)/devices/d\(device)", "", device, leaving: last)
            case 14..<16:
                try await self.ask(connection, "PUT", "devices/d\(device)/topics/topic-\(self.pick(20))", "", device)
            case 16..<18:
                try await self.ask(connection, "DELETE", "devices/d\(device)/topics/topic-\(self.pick(20))", "", device)
            case 18:
                try await self.ask(connection, "DELETE", "devices/d\(device)", "", device, token: "", user: "")
            default:
                // Apple calls the token dead: since before it was registered, or since now.
                let token = self.chronicle.token(device, rotates: false)
                let age: Int64 = self.pick(2) == 0 ? 3_600_000 : 0
                let since = self.fleet.clock.now().advanced(byMilliseconds: -age)
                self.fleet.simulator.declare(.dead(since: since), of: token, provider: .apns)
            }
        }

        private mutating func ask(
            _ connection: HTTPConnection,
            _ method: String,
            _ path: String,
            _ body: String,
            _ device: Int,
            token: String? = nil,
            user: String? = nil,
            leaving: String? = nil,
        ) async throws {
            let headers = [("content-type", "application/json"), ("authorization", "Bearer \(ConcurrencyTests.key)")]
            let order = HTTPClientRequest(
                method,
                "/v1/apps/\(Fleet.app)/\(path)",
                headers: headers,
                body: Array(body.utf8)
            )
            let start = self.fleet.clock.nanosecondsSince1970()
            let answer = try await connection.send(order)
            let end = self.fleet.clock.nanosecondsSince1970()
            switch answer.status {
            case 200, 201, 204:
                if token != nil || user != nil || leaving != nil {
                    self.chronicle.note(
                        device,
                        DeviceChange(start: start, end: end, token: token, user: user, left: leaving)
                    )
                }
            case 404: break
            case 409, 503:
                self.unanswered += 1
                self.chronicle.note(device, DeviceChange(start: start, end: .max, token: token, user: user))
            default:
                Issue.record(
                    "\(method) \(path) was answered \(answer.status): \(String(decoding: answer.body, as: UTF8.self))"
                )
            }
        }
    }

    /// Returns true when a device may have been so at some moment from `published` to `sent`: something made it so before `sent`, and
    /// nothing that began after that ended it before `published`, neither of its own changes nor any of `takeovers`.
    private static func mayHold(
        _ changes: [DeviceChange],
        takeovers: [DeviceChange] = [],
        published: Int64,
        sent: Int64,
        makes: (DeviceChange) -> Bool,
        ends: (DeviceChange) -> Bool,
    ) -> Bool {
        changes.contains { change in
            guard makes(change), change.start <= sent else { return false }
            func isBetween(_ other: DeviceChange) -> Bool { other.start >= change.end && other.end < published }
            return !changes.contains { ends($0) && isBetween($0) } && !takeovers.contains(where: isBetween)
        }
    }

    /// Publishes until the clients are through; how many went to users.
    private static func send(_ fleet: Fleet, _ chronicle: Chronicle) async throws -> Int {
        var random = SeededGenerator(seed: 1_000)
        var number = 0
        while !chronicle.isOver {
            number += 1
            let user = "user-\(Int.random(in: 0..<Self.users, using: &random))"
            chronicle.note("u\(number)", Publication(user: user, at: fleet.clock.nanosecondsSince1970()))
            try await fleet.send(.users([user]), id: "u\(number)", lane: .express)
            if number.isMultiple(of: 50) {
                try await fleet.send(.topic("all"), id: "t\(number)")
                try await fleet.send(.expression("'all' in topics && user != ''"), id: "e\(number)")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
        return number
    }

    @Test
    func `100 clients at 1,000 devices, sends and pruning: the store is sound, and logged-out users get nothing`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(Self.key.utf8)))
        try await Fleet.with(configuration) { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, port) = try await fleet.startRegistration([
                "janitor_interval": "1s", "janitor_rate": "100000",
            ])
            let chronicle = Chronicle(Self.devices)
            let unanswered = try await withThrowingTaskGroup(of: Int.self) { group in
                for index in 0..<Self.clients {
                    group.addTask {
                        var client = Client(
                            fleet: fleet,
                            chronicle: chronicle,
                            port: port,
                            random: SeededGenerator(seed: UInt64(index)),
                        )
                        try await client.run()
                        return client.unanswered
                    }
                }
                // Sends go on until the clients are through.
                async let sends = Self.send(fleet, chronicle)
                var unanswered = 0
                for try await count in group { unanswered += count }
                chronicle.end()
                let count = try await sends
                #expect(count > 20)
                return unanswered
            }
            try await eventually("nothing is left", timeout: .seconds(120)) {
                try await fleet.unfinishedEntries().values.allSatisfy { $0 == 0 }
            }

            let changes = chronicle.changes
            // The users who may ever have had a token.
            var holders: [String: Set<Int>] = [:]
            for (device, changes) in changes.enumerated() {
                for token in changes.compactMap(\.token) where !token.isEmpty {
                    holders[token, default: []].insert(device)
                }
            }
            let sent = chronicle.publications
            var (delivered, refused, wrong) = (0, 0, 0)
            fleet.simulator.ledger.snapshot.visit { entry in
                if entry.status == 410 { refused += 1 }
                guard entry.isAccepted, let send = entry.send, let publication = sent[send] else { return }
                delivered += 1
                let owners = holders[entry.token] ?? []
                let isRight = owners.contains { device in
                    // The user who registers a token takes it from its last holder.
                    let takeovers = owners.subtracting([device]).flatMap { other in
                        changes[other].filter { $0.token == entry.token }
                    }
                    return
                        Self.mayHold(
                            changes[device],
                            published: publication.at,
                            sent: entry.timeNanoseconds,
                            makes: { $0.user == publication.user },
                            ends: { $0.leaves(publication.user) }
                        )
                        && Self.mayHold(
                            changes[device],
                            takeovers: takeovers,
                            published: publication.at,
                            sent: entry.timeNanoseconds,
                            makes: { $0.token == entry.token },
                            ends: { $0.token.map { $0 != entry.token } ?? false }
                        )
                }
                if !isRight { wrong += 1 }
            }
            #expect(wrong == 0, "of \(delivered)")
            #expect(delivered > 50 && refused > 0)
            let removed = try await feedback.metric("apus_feedback_removed_total")
            #expect(try await removed + feedback.metric("apus_feedback_ignored_total") > 0)

            let check = try await StoreCheck.run(fleet.installation.store, AppID(Fleet.app))
            #expect(check.problems == [])
            #expect(check.deviceCount > 100)
            // Every answered request is done to its last hint; another one may leave those of its user and of its token.
            #expect(check.staleHints + check.unsettledTokens <= 2 * unanswered)
            for service in [registration, dispatcher, feedback] { try await service.terminate() }
        }
    }
}
