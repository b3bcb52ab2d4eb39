import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import FoundationEssentials
import NIOPosix
import Synchronization
import Testing

/// Browsers register by HTTP and get what was rendered, by way of the four push services.
@Suite(.serialized) struct WebPushDeliveryTests {
    /// A request that a push service accepted.
    private struct Taken: Sendable {
        let endpoint: String
        let headers: [String: String]
        let content: JSONValue?
        /// The number of the content's bytes.
        let bytes: Int

        /// The public key that the request is signed with, in base64url.
        var key: Substring? { self.headers["authorization"]?.split(separator: "k=", maxSplits: 1).last }
    }

    private final class Inbox: Sendable {
        private let taken = Mutex<[Taken]>([])

        var all: [Taken] { self.taken.withLock { $0 } }

        func take(_ request: AcceptedRequest) {
            let endpoint = "https://\(request.authority)\(request.path)"
            let content = SimulatedBrowser(endpoint: endpoint).decrypt(request.body)
            let entry = Taken(
                endpoint: endpoint,
                headers: Dictionary(request.headers.map { ($0.name, $0.value) }) { first, _ in first },
                content: content.flatMap { try? JSONValue(parsing: $0, bytesMax: 4_096) },
                bytes: content?.count ?? 0,
            )
            self.taken.withLock { $0.append(entry) }
        }
    }

    private static func with(
        protocols: [String]? = nil,
        keyCount: Int = 1,
        _ body: (Fleet, Inbox, [SimulatedBrowser]) async throws -> Void,
    ) async throws {
        var configuration = LocalClusterConfiguration()
        if let protocols { configuration.simulator.protocols = protocols }
        configuration.hasWebPush = true
        configuration.simulator.apps[0].keyCount = keyCount
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(utf8: "browsers"))
        try await Fleet.with(configuration) { fleet in
            let inbox = Inbox()
            fleet.simulator.observe { inbox.take($0) }
            let browsers = SimulatedBrowser.Service.allCases.flatMap { service in
                (0..<5).map { SimulatedBrowser(endpoint: service.endpoint("browser-\($0)")) }
            }
            let (registration, port) = try await fleet.startRegistration()
            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: port,
                on: MultiThreadedEventLoopGroup.singleton
            )
            let serverKey = try #require(fleet.simulator.applicationServerKey(app: Fleet.app))
            for (index, browser) in browsers.enumerated() {
                let registration: JSONValue = [
                    "provider": "webpush", "subscription": browser.subscription,
                    "application_server_key": .string(serverKey), "topics": ["news"],
                ]
                let answer = try await connection.send(
                    HTTPClientRequest(
                        "PUT",
                        "/v1/apps/\(Fleet.app)/devices/browser-\(index)",
                        headers: [("content-type", "application/json"), ("authorization", "Bearer browsers")],
                        body: registration.bytes,
                    )
                )
                #expect(answer.status == 201, "\(String(decoding: answer.body, as: UTF8.self))")
            }
            try await registration.terminate()
            try await body(fleet, inbox, browsers)
        }
    }

    /// Sends to a registered browser and to one that only the command knows, each in a send that goes out at once.
    private static func sendDirectly(_ fleet: Fleet, _ inbox: Inbox, _ browsers: [SimulatedBrowser]) async throws {
        let stranger = SimulatedBrowser(endpoint: SimulatedBrowser.Service.google.endpoint("unregistered"))
        var address = Address(provider: .webpush, token: stranger.endpoint)
        address.webpushP256DH = try #require(Base64URL.decode(stranger.p256dh))
        address.webpushAuth = try #require(Base64URL.decode(stranger.auth))
        let before = inbox.all.count
        try await fleet.send(.devices(["browser-3"]), id: "one", lane: .express) { $0.notification.title = "One" }
        try await fleet.send(.addresses([address]), id: "two", lane: .express) { $0.notification.title = "Two" }
        try await eventually("both have theirs") { inbox.all.count == before + 2 }
        let titles = inbox.all.dropFirst(before).map { ($0.endpoint, $0.content?["notification"]?["title"]?.string) }
        #expect(titles.first { $0.1 == "One" }?.0 == browsers[3].endpoint)
        #expect(titles.first { $0.1 == "Two" }?.0 == stranger.endpoint)
    }

    private static func send(
        _ id: String,
        _ fleet: Fleet,
        _ change: (inout Notification) -> Void = { _ in }
    ) async throws {
        try await fleet.send(.topic("news"), id: id) { command in
            command.notification = Notification()
            command.notification.title = "Tea"
            change(&command.notification)
        }
    }

    @Test func `A subscription is registered, sent to, and decrypts what was rendered, at all four services`()
        async throws
    {
        try await Self.with { fleet, inbox, browsers in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await Self.send("tea", fleet) {
                $0.body = "is ready"
                $0.collapseKey = "tea"
                $0.expiry = .ttl(milliseconds: 60_000)
                $0.data = ["pot": "2"]
            }
            let ledger = try await fleet.completion(of: "tea")
            #expect(ledger.total(.accepted) == UInt64(browsers.count))
            let taken = inbox.all
            #expect(taken.map(\.endpoint).sorted() == browsers.map(\.endpoint).sorted())
            let content: JSONValue = [
                "notification": ["title": "Tea", "body": "is ready", "tag": "tea"],
                "data": ["pot": "2", "apus_send": "tea"],
            ]
            for entry in taken {
                #expect(entry.content == content, "\(entry.endpoint)")
                #expect(entry.headers["urgency"] == "high" && entry.headers["topic"]?.utf8.count == 32)
                #expect((1...60).contains(Int(entry.headers["ttl"] ?? "") ?? 0))
            }
            try await Self.sendDirectly(fleet, inbox, browsers)
            // Each has its own token and each request its own key, which stands behind salt, size and length.
            #expect(Set(taken.compactMap { $0.headers["authorization"] }).count == 4)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Who is gone is pruned, who is slowed down waits and gets it once, and a redirect is not followed`()
        async throws
    {
        try await Self.with { fleet, inbox, browsers in
            let (gone, slow, moved) = (browsers[0], browsers[6], browsers[7])
            fleet.simulator.declare(.dead(since: fleet.clock.now()), of: gone.endpoint, provider: .webpush)
            var plan = FaultPlan()
            plan.retryAfter = .seconds(1)
            fleet.simulator.setFaults(plan)
            for (browser, fault) in [
                (slow, Fault.tooManyRequests), (moved, Fault.answer(status: 307, body: "")),
            ] {
                let path = WebAddress(https: browser.endpoint)?.path
                fleet.simulator.addScript(FaultScript(route: .webpush, pathContains: path, count: 1, fault: fault))
            }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await Self.send("tea", fleet)
            let ledger = try await fleet.completion(of: "tea")
            #expect(ledger.total(.accepted) == UInt64(browsers.count - 2))
            #expect(ledger.total(.unregistered) == 1 && ledger.total(.rejected) == 1)
            let endpoints = inbox.all.map(\.endpoint)
            #expect(endpoints.count { $0 == slow.endpoint } == 1 && endpoints.last == slow.endpoint)
            #expect(!endpoints.contains(gone.endpoint) && !endpoints.contains(moved.endpoint))
            let store = fleet.installation.store
            let app = try AppID(Fleet.app)
            try await eventually("who is gone is pruned") {
                try await store.get(app, try DeviceID("browser-0")) == nil
            }
            #expect(try await store.get(app, try DeviceID("browser-7")) != nil)
            #expect(try await store.get(app, try DeviceID("browser-6")) != nil)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Who only gets refusals is retired, who is accepted is not, and what is dropped counts as rejected`()
        async throws
    {
        try await Self.with { fleet, inbox, _ in
            let (store, app, now) = (fleet.installation.store, try AppID(Fleet.app), fleet.clock.now())
            // Both were refused a message more than a day ago.
            for name in ["cursed", "lucky"] {
                let browser = SimulatedBrowser(endpoint: SimulatedBrowser.Service.google.endpoint(name))
                var registration = DeviceRegistration(device: name, browser)
                registration.topics = ["news"]
                let registered = now.advanced(byMilliseconds: -2 * StoreLimits.refusalsMilliseconds)
                let device = try await store.register(app, registration, asOf: registered).device
                let noted = try await store.noteRefusal(
                    Route(app: app, provider: .webpush, environment: .production),
                    device.reference,
                    tokenDigest: DeviceToken.digest(device.record.token),
                    since: now.advanced(byMilliseconds: -StoreLimits.refusalsMilliseconds),
                )
                guard case .applied = noted else {
                    Issue.record("\(name): \(noted)")
                    return
                }
            }
            let dropped = SimulatedBrowser(endpoint: SimulatedBrowser.Service.microsoft.endpoint("dropped"))
            var registration = DeviceRegistration(device: "dropped", dropped)
            registration.topics = ["news"]
            _ = try await store.register(app, registration)
            for (name, reason) in [("cursed", "bad_encoding"), ("dropped", "dropped")] {
                let script = FaultScript(route: .webpush, pathContains: name, count: 1, fault: .reason(reason))
                fleet.simulator.addScript(script)
            }
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1s", "suspect_percent": "50"])
            let dispatcher = try await fleet.startDispatcher()
            try await Self.send("tea", fleet)
            let ledger = try await fleet.completion(of: "tea")
            #expect(ledger.total(.accepted) == 21 && ledger.total(.rejected) == 2)
            #expect(inbox.all.contains { $0.endpoint.contains("lucky") })
            try await eventually("who only gets refusals is retired") {
                try await store.get(app, DeviceID("cursed")) == nil
            }
            try await eventually("who was accepted is no longer in doubt") {
                let device = try await store.get(app, DeviceID("lucky"))
                return device != nil && device?.record.suspicion == nil
            }
            let kept = try #require(try await store.get(app, DeviceID("dropped")))
            #expect(kept.record.suspicion == nil)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A dispatcher that is killed loses no browser, and repeats no more than its window`() async throws {
        try await Self.with { fleet, inbox, _ in
            let app = try AppID(Fleet.app)
            let browsers = (0..<400).map { index in
                let services = SimulatedBrowser.Service.allCases
                return SimulatedBrowser(endpoint: services[index % services.count].endpoint("crowd-\(index)"))
            }
            let store = fleet.installation.store
            _ = try await forEachConcurrently(Array(browsers.enumerated())) { index, browser in
                var registration = DeviceRegistration(device: "crowd-\(index)", browser)
                registration.topics = ["crowd"]
                return try await store.register(app, registration)
            }
            var plan = FaultPlan()
            plan.webpush.delayMilliseconds = 20
            fleet.simulator.setFaults(plan)
            let feedback = try await fleet.startFeedback()
            let first = try await fleet.startDispatcher(["lease": "1s", "window": "32"])
            try await fleet.send(.topic("crowd"), id: "crowd") { command in
                command.notification = Notification()
                command.notification.title = "Tea"
            }
            try await eventually("some have it") { inbox.all.count >= 100 }
            await first.kill()
            let before = inbox.all.count
            #expect(before < 400)
            let second = try await fleet.startDispatcher(["lease": "1s", "window": "32"])
            let ledger = try await fleet.completion(of: "crowd")
            #expect(ledger.total(.accepted) == 400)
            let endpoints = inbox.all.map(\.endpoint)
            #expect(Set(endpoints) == Set(browsers.map(\.endpoint)))
            // Notifications in flight or not yet written, and as many as go out in one flush.
            #expect(endpoints.count - 400 <= 2 * 32, "repeated: \(endpoints.count - 400)")
            try await second.terminate()
            try await feedback.terminate()
        }
    }

    /// Services without HTTP/2, and some that do not negotiate at all (RFC 7301 §3.1).
    @Test(arguments: [["http/1.1"], []])
    func `Services that speak HTTP/1.1 only are sent to, and connections that they end cost nobody the message`(
        protocols: [String]
    ) async throws {
        try await Self.with(protocols: protocols) { fleet, inbox, browsers in
            var plan = FaultPlan(seed: 4)
            plan.webpush.goAwayAfterRequests = 3
            plan.webpush.drop = 0.1
            plan.webpush.refusal = 0.1
            fleet.simulator.setFaults(plan)
            fleet.simulator.declare(.dead(since: fleet.clock.now()), of: browsers[0].endpoint, provider: .webpush)
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            for id in ["first", "second", "third"] {
                try await Self.send(id, fleet) { $0.body = "for \(id)" }
            }
            var accepted: UInt64 = 0
            for id in ["first", "second", "third"] {
                let ledger = try await fleet.completion(of: id) { try await fleet.makeRetriesDue() }
                #expect(ledger.total(.accepted) + ledger.total(.unregistered) + ledger.total(.skipped) >= 19)
                accepted += ledger.total(.accepted)
            }
            #expect(accepted == 3 * 19)
            // A service that took the message and dropped the connection is asked again, since nobody knows that it took it.
            let dropped = Int(fleet.simulator.ledger.snapshot.summary.faults["drop"] ?? 0)
            #expect(inbox.all.count - 3 * 19 <= dropped)
            let everybody = Set(browsers.dropFirst().map(\.endpoint))
            #expect(Set(inbox.all.map(\.endpoint)) == everybody)
            #expect(fleet.simulator.ledger.snapshot.summary.count(.webpush, status: 410) >= 1)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A send is recalled where the service still holds it, and replaced elsewhere`() async throws {
        try await Self.with { fleet, inbox, browsers in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let mozilla = try #require(browsers.firstIndex { $0.endpoint.contains("mozilla") })
            let google = try #require(browsers.firstIndex { $0.endpoint.contains("googleapis") })
            let devices = ["browser-\(mozilla)", "browser-\(google)"]
            try await fleet.send(.devices(devices), id: "wrong", lane: .express) {
                $0.notification.title = "Wrong"
                $0.notification.collapseKey = "price"
            }
            let app = try AppID(Fleet.app)
            for device in devices {
                try await eventually("the history of \(device) has it") {
                    try await fleet.installation.store.history(app, DeviceID(device)).contains { $0.send == "wrong" }
                }
            }
            let order = ["recall", "wrong", "--app", Fleet.app, "--config", "\(dispatcher.directory)/apus.yaml"]
            let recalled = try fleet.apus(order + devices.flatMap { ["--device", $0] } + ["--device", "browser-9"])
            func results(_ answer: [String: Any]) -> [String] {
                (answer["devices"] as? [[String: Any]])?.compactMap { $0["result"] as? String } ?? []
            }
            #expect(recalled.code == 2)
            #expect(
                results(recalled.json) == [
                    "recalled", "its provider takes nothing back", "not known to have been accepted",
                ]
            )
            let before = inbox.all.count
            let again = try fleet.apus(order + devices.flatMap { ["--device", $0] } + ["--collapse-key", "price"])
            #expect(again.code == 0)
            #expect(results(again.json) == ["delivered or expired before", "its provider takes nothing back"])
            #expect((again.json["replacements"] as? [String])?.count == 1)
            try await eventually("it is replaced") { inbox.all.count > before }
            let taken = inbox.all.dropFirst(before)
            #expect(taken.map(\.endpoint) == [browsers[google].endpoint])
            #expect(taken.first?.content?["data"]?["apus_recalled"]?.string == "wrong")
            let topics = inbox.all.filter { $0.endpoint == browsers[google].endpoint }.map { $0.headers["topic"] }
            #expect(topics.count == 2 && topics[0] == topics[1] && topics[0] != nil)
            // Nobody is named: the histories say who has it. Most have nothing of a topic's send, which is said.
            let found = try fleet.apus(order)
            #expect(found.code == 2 && Set(results(found.json)) == Set(results(again.json)))
            try await Self.send("tea", fleet)
            _ = try await fleet.completion(of: "tea")
            let large = try fleet.apus(["recall", "tea"] + order.dropFirst(2))
            let remarks = (large.json["remarks"] as? [String] ?? []).joined()
            #expect(large.code == 2 && remarks.contains("20 of 20 acceptances are in no history"), "\(remarks)")
            // Its topic says who may have it.
            let seen = inbox.all.count
            let topic = ["recall", "tea", "--topic", "news", "--collapse-key", "tea"] + order.dropFirst(2)
            let replaced = try fleet.apus(topic + ["--title", "No tea"])
            #expect(replaced.code == 0 && (replaced.json["replacements"] as? [String])?.count == 1)
            try await eventually("all have the replacement") { inbox.all.count == seen + 20 }
            #expect(inbox.all.dropFirst(seen).allSatisfy { $0.content?["notification"]?["title"] == "No tea" })
            #expect(try fleet.apus(["recall", "tea", "--topic", "news"] + order.dropFirst(2)).code != 0)
            let nothing = try fleet.apus(["recall", "never"] + order.dropFirst(2))
            #expect(nothing.code == 1)
            // More devices than one send may name are replaced by several.
            let many = (0...Limits.recipientsMax).map { "nobody-\($0)" }
            let parts = try fleet.apus(order + many.flatMap { ["--device", $0] } + ["--collapse-key", "price"])
            #expect(parts.code == 0 && (parts.json["replacements"] as? [String])?.count == 2)
            // The results are shown also when no replacement can be published.
            let key = String(repeating: "k", count: Limits.nameBytesMax + 1)
            let unpublished = try fleet.apus(order + ["--device", devices[1], "--collapse-key", key])
            #expect(unpublished.code == 2 && results(unpublished.json) == ["its provider takes nothing back"])
            let remark = (unpublished.json["remarks"] as? [String] ?? []).joined()
            #expect(remark.contains("not everything was replaced"), "\(remark)")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A subscription of another key is quarantined without being asked, and Safari gets nothing silent`()
        async throws
    {
        try await Self.with { fleet, inbox, browsers in
            let other = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
            let stranger = SimulatedBrowser(endpoint: SimulatedBrowser.Service.mozilla.endpoint("stranger"))
            let app = try AppID(Fleet.app)
            var registration = DeviceRegistration(device: "stranger", stranger)
            registration.applicationServerKey = other
            registration.topics = ["news"]
            _ = try await fleet.installation.store.register(app, registration)
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await fleet.send(.topic("news"), id: "silent") { command in
                command.notification = Notification()
                command.notification.kind = .background
                command.notification.data = ["a": "1"]
            }
            let ledger = try await fleet.completion(of: "silent")
            #expect(ledger.total(.accepted) == 15 && ledger.total(.rejected) == 6)
            #expect(inbox.all.count == 15)
            #expect(
                inbox.all.allSatisfy { !$0.endpoint.contains("push.apple.com") && !$0.endpoint.contains("stranger") }
            )
            try await eventually("the stranger is quarantined") {
                try await fleet.installation.store.get(app, try DeviceID("stranger"))?.record.suspicion?.reason
                    == .wrongSender
            }
            #expect(browsers.count == 20)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A forgotten older key costs nobody the subscription, and who has it is sent to once it is named again`()
        async throws
    {
        try await Self.with(keyCount: 2) { fleet, inbox, browsers in
            let keys = fleet.simulator.applicationServerKeys(app: Fleet.app)
            let app = try AppID(Fleet.app)
            let loyal = SimulatedBrowser(endpoint: SimulatedBrowser.Service.apple.endpoint("loyal"))
            fleet.simulator.declareKey(keys[1], of: loyal.endpoint)
            var registration = DeviceRegistration(device: "loyal", loyal)
            registration.applicationServerKey = try #require(Base64URL.decode(keys[1]))
            registration.topics = ["news"]
            _ = try await fleet.installation.store.register(app, registration)
            // A service says of another one that its key is not ours.
            fleet.simulator.declare(.foreign, of: browsers[0].endpoint, provider: .webpush)
            func events(_ device: String) async throws -> [HistoryEvent.Kind] {
                try await fleet.installation.store.history(app, DeviceID(device)).map(\.kind)
            }

            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1s"])
            let forgetful = try await fleet.startDispatcher()
            try await Self.send("first", fleet)
            let ledger = try await fleet.completion(of: "first")
            #expect(ledger.total(.accepted) == 19 && ledger.total(.rejected) == 2)
            for device in ["loyal", "browser-0"] {
                try await eventually("the suspicion of \(device) has ended") {
                    try await events(device).contains(.cleared)
                }
                let kept = try #require(try await fleet.installation.store.get(app, DeviceID(device)))
                #expect(kept.record.suspicion == nil)
                #expect(try await events(device).contains(.suspected))
            }
            try await forgetful.terminate()

            let restored = try await fleet.start("dispatcher", vapidKeys: [0, 1])
            fleet.simulator.declare(.alive, of: browsers[0].endpoint, provider: .webpush)
            try await Self.send("second", fleet)
            #expect(try await fleet.completion(of: "second").total(.accepted) == 21)
            #expect(inbox.all.count { $0.endpoint == loyal.endpoint } == 1)
            try await restored.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A send to a topic is recalled where its receipts say what is held, and replaced elsewhere`()
        async throws
    {
        try await Self.with { fleet, inbox, browsers in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await fleet.send(.topic("news"), id: "wrong") { command in
                command.notification = Notification()
                command.notification.title = "Wrong"
                command.notification.collapseKey = "price"
                command.receiptLevel = .recipients
            }
            #expect(try await fleet.completion(of: "wrong").total(.accepted) == 20)
            try await eventually("every recipient has a receipt") {
                try await fleet.receipts(of: "wrong").reduce(0) { $0 + $1.recipients.count } == 20
            }
            let order = [
                "recall", "wrong", "--app", Fleet.app, "--config", "\(dispatcher.directory)/apus.yaml",
                "--collapse-key", "price", "--title", "Right",
            ]
            func results(_ answer: [String: Any]) -> [String: String] {
                let rows = (answer["devices"] as? [[String: Any]] ?? []).compactMap { row in
                    (row["device"] as? String).map { ($0, row["result"] as? String ?? "") }
                }
                return Dictionary(rows) { first, _ in first }
            }
            let before = inbox.all
            let recalled = try fleet.apus(order)
            #expect(recalled.code == 0, "\(recalled.json)")
            let ofMozilla = browsers.indices.filter { browsers[$0].endpoint.contains("mozilla") }.map {
                "browser-\($0)"
            }
            let found = results(recalled.json)
            #expect(found.count == 20)
            for (device, result) in found {
                let expected = ofMozilla.contains(device) ? "recalled" : "its provider takes nothing back"
                #expect(result == expected, "\(device)")
            }
            let rest = Set(browsers.map(\.endpoint).filter { !$0.contains("mozilla") })
            try await eventually("the others have the replacement") { inbox.all.count == before.count + 15 }
            let taken = inbox.all.dropFirst(before.count)
            #expect(Set(taken.map(\.endpoint)) == rest)
            for entry in taken {
                let first = before.first { $0.endpoint == entry.endpoint }
                #expect(entry.headers["topic"] == first?.headers["topic"] && entry.headers["topic"] != nil)
                #expect(entry.content?["notification"]?["title"] == "Right")
                #expect(entry.content?["data"]?["apus_recalled"]?.string == "wrong")
            }
            // Mozilla holds nothing any more.
            let again = results(try fleet.apus(order).json)
            #expect(ofMozilla.allSatisfy { again[$0] == "delivered or expired before" })
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test("D100 each browser is sent to with its own key, and one with another key costs no other browser")
    func keys() async throws {
        try await Self.with(keyCount: 2) { fleet, inbox, browsers in
            let keys = fleet.simulator.applicationServerKeys(app: Fleet.app)
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let younger = try #require(Base64URL.decode(keys[1]))
            func register(_ device: String, _ browser: SimulatedBrowser) async throws {
                var registration = DeviceRegistration(device: device, browser)
                registration.applicationServerKey = younger
                registration.topics = ["news"]
                _ = try await store.register(app, registration)
            }
            var expected = Dictionary(uniqueKeysWithValues: browsers.map { ($0.endpoint, keys[0]) })
            var confused: [String] = []
            for service in SimulatedBrowser.Service.allCases {
                for index in 0..<3 {
                    let browser = SimulatedBrowser(endpoint: service.endpoint("younger-\(index)"))
                    fleet.simulator.declareKey(keys[1], of: browser.endpoint)
                    try await register("\(service)-\(index)", browser)
                    expected[browser.endpoint] = keys[1]
                }
                // Its page says that it subscribed with the second key, and it was the first one. All services say so but Microsoft's, which
                // has no word for it.
                let browser = SimulatedBrowser(endpoint: service.endpoint("confused"))
                fleet.simulator.declareKey(keys[0], of: browser.endpoint)
                try await register("\(service)-confused", browser)
                if service != .microsoft { confused.append("\(service)-confused") }
            }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.start("dispatcher", vapidKeys: [1, 0])
            for send in ["first", "second"] {
                let before = inbox.all.count
                try await Self.send(send, fleet)
                let ledger = try await fleet.completion(of: send) { try await fleet.makeRetriesDue() }
                #expect(ledger.total(.accepted) == UInt64(expected.count))
                #expect(ledger.total(.unregistered) == 0 && ledger.total(.failed) == 1)
                let taken = inbox.all.dropFirst(before)
                #expect(taken.count == expected.count)
                for entry in taken {
                    #expect(entry.key.map(String.init) == expected[entry.endpoint], "\(entry.endpoint)")
                }
                if send == "first" {
                    #expect(ledger.total(.rejected) == UInt64(confused.count))
                    for device in confused {
                        try await eventually("\(device) waits") {
                            try await store.get(app, DeviceID(device))?.record.suspicion?.reason == .wrongSender
                        }
                    }
                }
            }
            // Each service was asked for its confused browser only, and once if it has a word for it. Nobody is deleted.
            let refused = fleet.simulator.ledger.snapshot.entries.filter { !$0.isAccepted }
            #expect(refused.allSatisfy { $0.token.hasSuffix("confused") })
            #expect(refused.count { !$0.token.hasPrefix("/w/") } == confused.count)
            let browserRoute = Route(app: app, provider: .webpush, environment: .production)
            #expect(try await store.deviceCount(browserRoute) == expected.count + confused.count + 1)
            let others = browsers.indices.map { "browser-\($0)" } + ["microsoft-confused", "google-0", "apple-1"]
            for device in others {
                #expect(try await store.get(app, DeviceID(device))?.record.suspicion == nil, "\(device)")
            }
            let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
            let row = routes?.first { $0["route"] as? String == "\(Fleet.app)/webpush/production" }
            #expect(row?["paused"] as? Bool == false, "\(row ?? [:])")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(
        "D101 a service that refuses our key waits alone, and the route stops when two refuse it, until it is resumed"
    )
    func refusedKey() async throws {
        try await Self.with { fleet, inbox, browsers in
            func refuse(_ path: String?) {
                fleet.simulator.addScript(
                    FaultScript(route: .webpush, pathContains: path, count: 10_000, fault: .reason("bad_token"))
                )
            }
            func lag() throws -> [String: Any]? {
                let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
                return routes?.first { $0["route"] as? String == "\(Fleet.app)/webpush/production" }
            }
            func accepted(_ send: String) async throws -> UInt64 {
                try await fleet.ledger(of: send)?.total(.accepted) ?? 0
            }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await Self.send("before", fleet)
            #expect(try await fleet.completion(of: "before").total(.accepted) == 20)

            refuse("/fcm/send/")
            try await Self.send("one", fleet)
            try await eventually("the other services have theirs") { try await accepted("one") == 15 }
            try await eventually("those of the first one wait in Redis") {
                try await fleet.waitingForTheirTime() > 0
            }
            #expect(try lag()?["paused"] as? Bool == false)
            #expect(try await accepted("one") == 15)

            // Another process has no acceptance to go by.
            try await dispatcher.terminate()
            fleet.simulator.clearFaults()
            refuse(nil)
            let second = try await fleet.startDispatcher()
            try await Self.send("all", fleet)
            try await eventually("the route stops") { try lag()?["paused"] as? Bool == true }
            #expect(try lag()?["paused_by"] as? String == "credential")
            #expect(try await accepted("all") == 0)
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            for index in browsers.indices {
                let device = try #require(try await store.get(app, DeviceID("browser-\(index)")))
                #expect(device.record.suspicion == nil)
            }

            fleet.simulator.clearFaults()
            let resumed = try fleet.apus("resume", "--route", "\(Fleet.app)/webpush/production")
            #expect(resumed.code == 0)
            for send in ["one", "all"] {
                let ledger = try await fleet.completion(of: send) { try await fleet.makeRetriesDueSlowly() }
                #expect(ledger.total(.accepted) == 20, "\(send)")
            }
            #expect(Set(inbox.all.map(\.endpoint)).count == 20 && inbox.all.count == 60)
            try await second.terminate()
            try await feedback.terminate()
        }
    }

    /// The targets of sends: those that go out directly, those that are planned from a list or an index, and those that read the store.
    enum Selection: String, CaseIterable, Sendable {
        case devices
        case manyDevices
        case users
        case topic
        case condition
        case expression
        case everyone

        /// - Parameter devices: all devices, each in the topic `news` and of the user `ann`.
        func target(_ devices: [String]) -> Target {
            switch self {
            case .devices: .devices(devices)
            // More than go out directly.
            case .manyDevices: .devices((0..<200).map { devices[$0 % devices.count] })
            case .users: .users(["ann"])
            case .topic: .topic("news")
            case .condition: .condition("'news' in topics && !('quiet' in topics)")
            case .expression: .expression("'news' in topics && user == 'ann'")
            case .everyone: .everyone([])
            }
        }
    }

    @Test func `Content of 3,993 bytes reaches browsers, and one byte more fails for them alone, whatever the target`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = true
        try await Fleet.with(configuration) { fleet in
            let inbox = Inbox()
            fleet.simulator.observe { if $0.provider == .webpush { inbox.take($0) } }
            let devices = try await fleet.register(
                6,
                providers: [.apns, .webpush],
                topics: { _ in ["news"] },
                user: { _ in "ann" },
            ).map(\.id)
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            func send(_ id: String, _ selection: Selection, bytes: Int) async throws {
                try await fleet.send(selection.target(devices), id: id) { command in
                    command.notification = Notification()
                    command.notification.title = "Tea"
                    command.notification.body = String(repeating: "x", count: bytes)
                }
            }
            func outcome(_ id: String) async throws -> [Outcome: UInt64] {
                try await eventually("\(id) has its final receipt") {
                    try await fleet.receipts(of: id).contains { $0.kind == .final }
                }
                let final = try await fleet.receipts(of: id).last { $0.kind == .final }
                return Dictionary(final?.counts.map { ($0.outcome, $0.count) } ?? [], uniquingKeysWith: +)
            }
            // Ids are of one length, since the content names its send.
            try await send("send-00", .topic, bytes: 1)
            _ = try await outcome("send-00")
            let around = try #require(inbox.all.first).bytes - 1
            for (number, selection) in Selection.allCases.enumerated() {
                let before = inbox.all.count
                try await send("send-1\(number)", selection, bytes: 3_993 - around)
                #expect(try await outcome("send-1\(number)") == [.accepted: 6], "\(selection)")
                #expect(inbox.all.dropFirst(before).map(\.bytes) == [3_993, 3_993, 3_993], "\(selection)")
                try await send("send-2\(number)", selection, bytes: 3_994 - around)
                #expect(try await outcome("send-2\(number)") == [.accepted: 3, .rejected: 3], "\(selection)")
                #expect(inbox.all.count == before + 3, "\(selection)")
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: [1, 3])
    func `As many threads encrypt as the configuration says, at a lower priority than the others`(
        count: Int
    )
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = true
        try await Fleet.with(configuration) { fleet in
            _ = try await fleet.register(600, providers: [.webpush], topics: { _ in ["news"] })
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(["crypto_threads": "\(count)"])
            #expect(try Self.politeThreads(of: dispatcher.processID).isEmpty)
            try await Self.send("tea", fleet)
            #expect(try await fleet.completion(of: "tea").total(.accepted) == 600)
            let threads = try Self.politeThreads(of: dispatcher.processID)
            #expect(threads.count == count, "\(threads)")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Returns the ids of a process's threads of pools that let others go first: their nice value (proc(5), `stat`, 19) is positive.
    private static func politeThreads(of process: Int32) throws -> [String] {
        let folder = "/proc/\(process)/task"
        return try FileManager.default.contentsOfDirectory(atPath: folder).filter { thread in
            let stat = try String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8)
            let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
            // The name that NIO gives to threads of a pool; the system has polite threads of its own.
            return stat.contains("(TP-#") && fields.count > 16 && Int(fields[16]).map { $0 > 0 } ?? false
        }
    }

    @Test func `What was accepted for phones and Safari is replaced by collapse key, Safari only visibly`() async throws
    {
        try await Self.with { fleet, inbox, browsers in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let app = try AppID(Fleet.app)
            let safari = try #require(browsers.firstIndex { $0.endpoint.contains("push.apple.com") })
            let phones = [(Provider.apns, String(repeating: "0a", count: 32)), (.fcm, "token-of-a-phone")]
            for (provider, token) in phones {
                let device = DeviceRegistration(device: provider.name, provider: provider, token: token)
                _ = try await fleet.installation.store.register(app, device)
            }
            let devices = ["browser-\(safari)", "apns", "fcm"]
            try await fleet.send(.devices(devices), id: "wrong", lane: .express) {
                $0.notification.title = "Wrong"
                $0.notification.collapseKey = "price"
            }
            for device in devices {
                try await eventually("the history of \(device) has it") {
                    try await fleet.installation.store.history(app, DeviceID(device)).contains { $0.send == "wrong" }
                }
            }
            let order = ["recall", "wrong", "--app", Fleet.app, "--config", "\(dispatcher.directory)/apus.yaml"]
            func replaced(_ answer: [String: Any]) -> [String: Bool] {
                let rows = (answer["devices"] as? [[String: Any]] ?? []).compactMap { row in
                    (row["device"] as? String).map { ($0, row["replaced"] as? Bool ?? false) }
                }
                return Dictionary(rows) { first, _ in first }
            }
            func taken(_ answer: [String: Any]) async throws -> [Provider: Int] {
                let send = try #require((answer["replacements"] as? [String])?.first)
                let expected = replaced(answer).values.count { $0 }
                try await eventually("the replacement has arrived") {
                    fleet.accepted(of: send).count == expected
                }
                let entries = fleet.simulator.ledger.snapshot.entries.filter { $0.isAccepted && $0.send == send }
                return Dictionary(grouping: entries, by: \.provider).mapValues(\.count)
            }
            let silent = try fleet.apus(order + ["--collapse-key", "price"])
            #expect(silent.code == 2)
            #expect(replaced(silent.json) == [devices[0]: false, "apns": true, "fcm": true])
            #expect((silent.json["remarks"] as? [String])?.joined().contains("Safari") == true)
            #expect(try await taken(silent.json) == [.apns: 1, .fcm: 1])
            let shown = try fleet.apus(order + ["--collapse-key", "price", "--title", "Corrected"])
            #expect(shown.code == 0)
            #expect(try await taken(shown.json) == [.apns: 1, .fcm: 1, .webpush: 1])
            try await eventually("Safari has the replacement") {
                let received = inbox.all.last { $0.endpoint == browsers[safari].endpoint }
                return received?.content?["notification"]?["title"] == "Corrected"
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Keys are made, counted and retired by the operator's program, which registers at known services only`()
        async throws
    {
        try await Self.with(keyCount: 2) { fleet, _, browsers in
            let dispatcher = try await fleet.start("dispatcher", vapidKeys: [0, 1])
            let place = ["--app", Fleet.app, "--config", "\(dispatcher.directory)/apus.yaml"]
            let keys = fleet.simulator.applicationServerKeys(app: Fleet.app)
            let file = "\(dispatcher.directory)/new-vapid.pem"
            let made = try fleet.apus(["webpush", "key", "create", file], needsRedis: false)
            #expect(made.code == 0 && (made.json["public_key"] as? String)?.count == 87)
            #expect(try fleet.apus(["webpush", "key", "create", file], needsRedis: false).code == 1)
            func put(_ device: String, _ endpoint: String, _ more: [String] = []) throws -> Int32 {
                let browser = SimulatedBrowser(endpoint: SimulatedBrowser.Service.mozilla.endpoint(device))
                return try fleet.apus(
                    [
                        "device", "put", "--app", Fleet.app, device, "--provider", "webpush", "--token", endpoint,
                        "--webpush-p256dh", browser.p256dh, "--webpush-auth", browser.auth,
                    ] + more
                ).code
            }
            #expect(try put("evil", "https://127.0.0.1/x") == 1)
            #expect(try await fleet.installation.store.get(AppID(Fleet.app), DeviceID("evil")) == nil)
            let retire = ["webpush", "key", "retire"] + place + [keys[1]]
            #expect(try fleet.apus(retire).code == 0)
            let endpoint = SimulatedBrowser.Service.mozilla.endpoint("old")
            #expect(try put("old", endpoint, ["--application-server-key", keys[1]]) == 0)
            #expect(try put("unnamed", SimulatedBrowser.Service.mozilla.endpoint("unnamed")) == 0)
            let listed = try fleet.apus(["webpush", "key", "list"] + place)
            let counts = (listed.json["keys"] as? [[String: Any]])?.compactMap { $0["browsers"] as? Int }
            #expect(counts == [browsers.count, 1] && listed.json["unnamed"] as? Int == 1)
            #expect(try fleet.apus(retire).code == 1)
            #expect(try fleet.apus(["webpush", "key", "retire"] + place + [keys[0]]).code == 1)
            try await dispatcher.terminate()
        }
    }
}
