import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Tests the effects of providers' verdicts about tokens on devices, with services and providers running.
@Suite(.serialized) struct GuardTests {
    /// Returns how many of the devices exist, and how many of them are suspect.
    private static func count(
        _ devices: [SampleDevice],
        _ fleet: Fleet,
    ) async throws -> (kept: Int, suspect: Int) {
        let store = fleet.installation.store
        let app = try AppID(Fleet.app)
        let found = try await forEachConcurrently(devices) { try await store.get(app, try DeviceID($0.id)) }
        let kept = found.compactMap(\.self)
        return (kept.count, kept.filter { $0.record.suspicion != nil }.count)
    }

    private static func number(_ provider: Provider, _ fleet: Fleet) async throws -> RouteNumber {
        let route = Route(app: try AppID(Fleet.app), provider: provider, environment: .production)
        return try await fleet.installation.streams.routes.number(of: route)
    }

    /// All of Apple's tokens of the other environment, all of Google's of another project.
    @Test(arguments: [(Provider.apns, TokenBehavior.bad), (Provider.fcm, TokenBehavior.foreign)])
    func `D5 D59 Swapped environments delete nobody and pause the route, and it can be undone`(
        provider: Provider,
        behavior: TokenBehavior,
    ) async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(10_000, providers: [provider], topics: { _ in ["news"] })
            let tokens = devices.map(\.token)
            fleet.simulator.declare(behavior, of: tokens, provider: provider)
            let streams = fleet.installation.streams
            let number = try await Self.number(provider, fleet)
            // Suspects are due long before the test has ended.
            let settings = ["lease": "1s", "delete_suspects_after": "1s"]
            let first = try await fleet.startFeedback(settings)
            let dispatcher = try await fleet.startDispatcher(["lease": "1s"])
            try await fleet.send(.topic("news"), id: "swapped")
            try await eventually("the guard stops the route") {
                try await streams.routes.state(of: number).isPausedByGuard
            }
            await first.kill()
            let second = try await fleet.startFeedback(settings)
            try await eventually("all outcomes are applied") {
                try await fleet.unfinishedEntries().keys.allSatisfy { !$0.hasSuffix("}outcomes") }
            }
            try await Task.sleep(for: .seconds(3))
            let suspects = try await streams.quarantine.state(of: number).tokens
            let counted = try await Self.count(devices, fleet)
            #expect(counted.kept == 10_000, "wrongly deleted: \(10_000 - counted.kept)")
            #expect(counted.suspect == suspects && suspects >= 20)

            let listed = try fleet.apus("quarantine", "list")
            let row = (listed.json["routes"] as? [[String: Any]])?.first
            #expect(row?["route"] as? String == "\(Fleet.app)/\(provider.name)/production")
            #expect(row?["suspects"] as? Int == suspects)
            #expect(row?["quarantined"] as? Bool == true && row?["paused"] as? Bool == true)
            // Histories have the provider's own word, which the console shows. A kill loses those that were not written yet.
            let word = provider == .apns ? "BadDeviceToken" : "SENDER_ID_MISMATCH"
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let route = Route(app: app, provider: provider, environment: .production)
            let newest = try await streams.quarantine.tokens(of: number, from: max(0, suspects - 100))
            try await eventually("histories are written") {
                var words: Set<String> = []
                for token in newest {
                    let device = try DeviceID(try #require(try await store.read(route, token.reference)).id)
                    let events = try await store.history(app, device).filter { $0.kind == .suspected }
                    words.formUnion(events.map(\.providerReason))
                }
                return words == [word]
            }
            try await eventually("the alert sees it", timeout: .seconds(60)) {
                try await second.metric("apus_feedback_quarantined_routes") == 1
            }

            fleet.simulator.declare(.alive, of: tokens, provider: provider)
            #expect(try fleet.apus("quarantine", "restore", "--route", "\(Fleet.app)/webpush").code == 1)
            let restored = try fleet.apus("quarantine", "restore", "--route", "\(Fleet.app)/\(provider.name)")
            let settlement = (restored.json["routes"] as? [[String: Any]])?.first
            #expect(restored.code == 0 && settlement?["settled"] as? Int == suspects)
            #expect(settlement?["paused"] as? Bool == false)
            try await eventually("the alert is over", timeout: .seconds(60)) {
                try await second.metric("apus_feedback_quarantined_routes") == 0
            }
            let ledger = try await fleet.completion(of: "swapped")
            #expect(ledger.total(.rejected) == UInt64(suspects))
            #expect(ledger.total(.accepted) + ledger.total(.rejected) == 10_000)

            try await fleet.send(.topic("news"), id: "fixed")
            _ = try await fleet.completion(of: "fixed")
            #expect(Comparison(accepted: fleet.accepted(of: "fixed"), audience: Set(tokens)) == .exact)
            #expect(try await Self.count(devices, fleet) == (10_000, 0))
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await second.terminate()
        }
    }

    @Test func `D5 A quarantine that was right is confirmed: its devices go, and the route opens`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(300, providers: [.apns], topics: { _ in ["news"] })
            fleet.simulator.declare(.bad, of: devices.map(\.token), provider: .apns)
            let streams = fleet.installation.streams
            let number = try await Self.number(.apns, fleet)
            let feedback = try await fleet.startFeedback(["lease": "1s", "delete_suspects_after": "1h"])
            let dispatcher = try await fleet.startDispatcher(["lease": "1s"])
            try await fleet.send(.topic("news"), id: "wiped")
            try await eventually("the guard stops the route", timeout: .seconds(60)) {
                try await streams.routes.state(of: number).isPausedByGuard
            }
            try await eventually("all outcomes are applied", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().keys.allSatisfy { !$0.hasSuffix("}outcomes") }
            }
            try await eventually("the alert sees it", timeout: .seconds(60)) {
                try await feedback.metric("apus_feedback_quarantined_routes") == 1
            }
            let suspects = try await streams.quarantine.state(of: number).tokens
            #expect(try await Self.count(devices, fleet) == (300, suspects))

            #expect(try fleet.apus("quarantine", "confirm", "--route", "\(Fleet.app)/apns").code == 64)
            #expect(try await Self.count(devices, fleet).kept == 300, "nobody goes without --yes")
            let confirmed = try fleet.apus("quarantine", "confirm", "--route", "\(Fleet.app)/apns", "--yes")
            let settlement = (confirmed.json["routes"] as? [[String: Any]])?.first
            #expect(confirmed.code == 0 && settlement?["settled"] as? Int == suspects)
            #expect(try await !streams.routes.state(of: number).isPaused)
            #expect(try await Self.count(devices, fleet) == (300 - suspects, 0))
            try await eventually("the alert is over", timeout: .seconds(60)) {
                try await feedback.metric("apus_feedback_quarantined_routes") == 0
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D21 Three thousand uninstalls of ten thousand are pruned and stop nothing, and all can be undone`()
        async throws
    {
        try await Fleet.with(dead: 0.3) { fleet in
            let devices = try await fleet.register(10_000, topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "wave")
            let ledger = try await fleet.completion(of: "wave")
            let dead = Int(ledger.total(.unregistered))
            #expect(dead > 2_500 && dead < 3_500)
            #expect(try await Self.count(devices, fleet) == (10_000 - dead, 0))
            var restored = 0
            for provider in [Provider.apns, .fcm] {
                let number = try await Self.number(provider, fleet)
                #expect(try await !fleet.installation.streams.routes.state(of: number).isPaused)
                #expect(try await fleet.installation.streams.quarantine.state(of: number) == TokenQuarantine.State())
                let name = "\(Fleet.app)/\(provider.name)"
                let trial = try fleet.apus("device", "restore", "--route", name, "--newer-than", "1h", "--dry-run")
                let report = try fleet.apus("device", "restore", "--route", name, "--newer-than", "1h")
                let counts = [trial, report].map { answer in
                    (answer.json["routes"] as? [[String: Any]])?.reduce(0) { $0 + ($1["restored"] as? Int ?? 0) }
                }
                #expect(trial.code == 0 && report.code == 0 && counts[0] == counts[1])
                restored += counts[1] ?? 0
            }
            #expect(restored == dead)
            #expect(try await Self.count(devices, fleet) == (10_000, 0))
            #expect(try fleet.apus("device", "restore", "--app", Fleet.app, "nobody").code == 1)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D21 A provider that calls all tokens dead deletes few, and the rest wait for an operator`() async throws
    {
        try await Fleet.with(dead: 1) { fleet in
            let devices = try await fleet.register(2_000, providers: [.apns], topics: { _ in ["news"] })
            let number = try await Self.number(.apns, fleet)
            let dispatcher = try await fleet.startDispatcher(["lease": "1s"])
            let feedback = try await fleet.startFeedback(["lease": "1s", "delete_suspects_after": "1s"])
            try await fleet.send(.topic("news"), id: "wave")
            try await eventually("the guard stops the route", timeout: .seconds(60)) {
                try await fleet.installation.streams.routes.state(of: number).isPausedByGuard
            }
            try await eventually("all outcomes are applied", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().keys.allSatisfy { !$0.hasSuffix("}outcomes") }
            }
            // Requests that were on the wire when the route stopped are answered, and applied, after that.
            try await eventually("the list and the records agree", timeout: .seconds(60)) {
                let state = try await fleet.installation.streams.quarantine.state(of: number)
                let suspects = try await Self.count(devices, fleet).suspect
                return state.tokens >= 20 && suspects == state.tokens
            }
            let state = try await fleet.installation.streams.quarantine.state(of: number)
            let counted = try await Self.count(devices, fleet)
            #expect(state.isForDead && counted.suspect == state.tokens)
            #expect(2_000 - counted.kept < 200, "wrongly deleted: \(2_000 - counted.kept)")
            let confirmed = try fleet.apus("quarantine", "confirm", "--route", "\(Fleet.app)/apns", "--yes")
            #expect(confirmed.code == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A few bad tokens among good ones are deleted when they have waited; confirming does it at once`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000, providers: [.apns], topics: { _ in ["news"] })
            let bad = devices.enumerated().filter { $0.offset.isMultiple(of: 50) }.map(\.element)
            fleet.simulator.declare(.bad, of: bad.map(\.token), provider: .apns)
            let dispatcher = try await fleet.startDispatcher()
            let patient = try await fleet.startFeedback(["delete_suspects_after": "1h"])
            let streams = fleet.installation.streams
            let number = try await Self.number(.apns, fleet)
            try await fleet.send(.topic("news"), id: "one")
            #expect(try await fleet.completion(of: "one").total(.rejected) == 40)
            // They are not sent to meanwhile.
            try await fleet.send(.topic("news"), id: "two")
            let again = try await fleet.completion(of: "two")
            #expect(again.total(.skipped) == 40 && again.total(.accepted) == 1_960)
            #expect(try await Self.count(devices, fleet) == (2_000, 40))
            #expect(try await !streams.routes.state(of: number).isPaused)

            #expect(try fleet.apus("quarantine", "confirm", "--route", "demo/apns").code == 64)
            let folder = try TemporaryFolder()
            let file = try folder.write("apus.yaml", "feedback: {undo_window: 0s}\n")
            let confirmed = try fleet.apus(
                "quarantine",
                "confirm",
                "--route",
                "demo/apns",
                "--yes",
                "--config",
                file
            )
            let settlement = (confirmed.json["routes"] as? [[String: Any]])?.first
            #expect(confirmed.code == 0 && settlement?["settled"] as? Int == 40)
            #expect(try await Self.count(devices, fleet) == (1_960, 0))
            // The configuration keeps nothing of those who were deleted.
            let restored = try fleet.apus(
                "device",
                "restore",
                "--route",
                "demo/apns",
                "--newer-than",
                "1h",
                "--dry-run"
            )
            let rows = restored.json["routes"] as? [[String: Any]] ?? []
            #expect(restored.code == 0 && rows.allSatisfy { $0["restored"] as? Int == 0 }, "\(restored.json)")
            try await patient.terminate()

            let prompt = try await fleet.startFeedback(["delete_suspects_after": "1s"])
            let worse = devices.enumerated().filter { $0.offset % 60 == 7 }.map(\.element)
            fleet.simulator.declare(.bad, of: worse.map(\.token), provider: .apns)
            try await fleet.send(.topic("news"), id: "three")
            _ = try await fleet.completion(of: "three")
            try await eventually("they are deleted") { try await streams.quarantine.state(of: number).tokens == 0 }
            #expect(try await Self.count(devices, fleet) == (1_960 - worse.count, 0))
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await prompt.terminate()
        }
    }

    @Test(arguments: [false, true])
    func `D55 When FCM calls something invalid without a name, the token is checked, and only a bad one is suspect`(
        isBad: Bool
    ) async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2, providers: [.fcm])
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1h"])
            if isBad { fleet.simulator.declare(.bad, of: devices[0].token, provider: .fcm) }
            let body =
                #"{"error":{"code":400,"message":"Request contains an invalid argument.","#
                + #""status":"INVALID_ARGUMENT"}}"#
            let fault = Fault.answer(status: 400, body: body)
            #expect(
                fleet.simulator.addScript(
                    FaultScript(route: .fcm, pathContains: "messages:send", count: 1, fault: fault)
                )
            )
            try await fleet.send(.devices(devices.map(\.id)), id: "unclear", lane: .express)
            try await eventually("it is done", timeout: .seconds(60)) {
                try await fleet.receipts(of: "unclear").contains { $0.kind == .final }
            }
            let receipt = try #require(try await fleet.receipts(of: "unclear").first { $0.kind == .final })
            let counts = Set(receipt.counts.map { "\($0.outcome.name) \($0.reason.name) \($0.count)" })
            #expect(counts == ["accepted none 1", isBad ? "rejected bad_token 1" : "rejected other 1"])
            #expect(fleet.accepted(of: "unclear") == [devices[1].token: 1], "what is only checked reaches nobody")
            if isBad {
                try await eventually("the store knows", timeout: .seconds(60)) {
                    try await Self.count(devices, fleet) == (2, 1)
                }
            }
            #expect(try await Self.count(devices, fleet) == (2, isBad ? 1 : 0))
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Returns how many of the devices the store has in the sandbox.
    private static func moved(_ devices: [SampleDevice], _ fleet: Fleet) async throws -> Int {
        let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
        let found = try await forEachConcurrently(devices) { try await store.get(app, try DeviceID($0.id)) }
        return found.count { $0?.realm == Realm(.apns, .sandbox) }
    }

    @Test func `D5 A few tokens of the other environment get the message there, and the store learns it`() async throws
    {
        try await Fleet.withSandbox { fleet, sandbox in
            let devices = try await fleet.register(1_000, providers: [.apns], topics: { _ in ["news"] })
            let foreign = devices.enumerated().filter { $0.offset % 50 < 2 }.map(\.element)
            let lost = devices.enumerated().filter { $0.offset % 100 == 7 }.map(\.element)
            let home = devices.filter { !foreign.contains($0) && !lost.contains($0) }
            fleet.simulator.declare(.bad, of: (foreign + lost).map(\.token), provider: .apns)
            sandbox.declare(.bad, of: (home + lost).map(\.token), provider: .apns)
            let port = sandbox.addresses.apnsPort
            let dispatcher = try await fleet.start("dispatcher", sandboxPort: port)
            let patient = try await fleet.startFeedback(["delete_suspects_after": "1h"])
            try await fleet.send(.topic("news"), id: "one")
            let first = try await fleet.completion(of: "one")
            #expect(first.total(.accepted) == 990 && first.total(.rejected) == 10)
            #expect(try await Self.count(devices, fleet) == (1_000, 50))
            // Under suspicion they are still sent to, where they are known to be taken.
            try await fleet.send(.topic("news"), id: "two")
            let second = try await fleet.completion(of: "two")
            #expect(second.total(.accepted) == 990 && second.total(.skipped) == 10)
            try await patient.terminate()

            let prompt = try await fleet.startFeedback(["delete_suspects_after": "1s"])
            let number = try await Self.number(.apns, fleet)
            try await eventually("all suspects are settled") {
                try await fleet.installation.streams.quarantine.state(of: number).tokens == 0
            }
            #expect(try await Self.count(devices, fleet) == (990, 0))
            #expect(try await Self.moved(devices, fleet) == 40)
            let before = fleet.simulator.ledger.snapshot.count
            try await fleet.send(.topic("news"), id: "three")
            #expect(try await fleet.completion(of: "three").total(.accepted) == 990)
            #expect(fleet.simulator.ledger.snapshot.count - before == 950, "nobody is tried in both any more")
            var accepted = fleet.accepted(of: "three")
            for (key, count) in sandbox.ledger.snapshot.accepted where key.send == "three" {
                accepted[key.token, default: 0] += count
            }
            #expect(Comparison(accepted: accepted, audience: Set((home + foreign).map(\.token))) == .exact)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await prompt.terminate()
        }
    }

    @Test(arguments: [false, true])
    func `D5 A Live Activity's token of the other environment is learnt by itself, and its device stays`(
        isTopic: Bool
    ) async throws {
        try await Fleet.withSandbox { fleet, sandbox in
            let devices = try await fleet.register(4, providers: [.apns], topics: { _ in ["game"] })
            let target: Target = isTopic ? .topic("game") : .devices(devices.map(\.id))
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let tokens = (0..<4).map { [UInt8](repeating: UInt8($0), count: 80) }
            let texts = tokens.map { Hexadecimal.encode($0) }
            for (device, token) in zip(devices, tokens) {
                var address = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: token)
                address.activityID = "final"
                _ = try await store.putAddress(app, try DeviceID(device.id), address)
            }
            // The first one's token is the sandbox's, those of the devices are not.
            fleet.simulator.declare(.bad, of: [texts[0]], provider: .apns)
            sandbox.declare(.bad, of: devices.map(\.token) + texts.dropFirst(), provider: .apns)
            let dispatcher = try await fleet.start("dispatcher", sandboxPort: sandbox.addresses.apnsPort)
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1s"])
            func update(_ id: String) async throws {
                try await fleet.send(target, id: id) { command in
                    var change = Notification.LiveActivity(event: .update)
                    change.contentStateJSON = "{}"
                    change.activityID = "final"
                    command.notification.kind = .liveActivity
                    command.notification.liveActivity = change
                }
                try await eventually("all of \(id) is done") {
                    try await fleet.receipts(of: id).contains { $0.kind == .final }
                }
                let receipt = try #require(try await fleet.receipts(of: id).first { $0.kind == .final })
                #expect(receipt.counts.map { [$0.outcome.name: $0.count] } == [["accepted": 4]])
            }
            func elsewhere() async throws -> [Bool?] {
                try await forEachConcurrently(devices) { device in
                    try await store.get(app, try DeviceID(device.id))?.record.secondary.first?.isOfOtherEnvironment
                }
            }
            try await update("one")
            try await eventually("the store has learnt it") { try await elsewhere() == [true, false, false, false] }
            let before = fleet.simulator.ledger.snapshot.count
            try await update("two")
            #expect(fleet.simulator.ledger.snapshot.count - before == 3, "nobody is tried in both any more")
            try await fleet.send(target, id: "alert")
            try await eventually("the devices are where they were") { fleet.accepted(of: "alert").count == 4 }
            #expect(try await Self.moved(devices, fleet) == 0)
            #expect(try await Self.count(devices, fleet) == (4, 0))
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D5 Environments that are swapped at both ends move and delete nobody, and pause the route`()
        async throws
    {
        try await Fleet.withSandbox { fleet, sandbox in
            let devices = try await fleet.register(2_000, providers: [.apns], topics: { _ in ["news"] })
            fleet.simulator.declare(.bad, of: devices.map(\.token), provider: .apns)
            let number = try await Self.number(.apns, fleet)
            let streams = fleet.installation.streams
            let dispatcher = try await fleet.start("dispatcher", sandboxPort: sandbox.addresses.apnsPort)
            // Due while the test still runs, but not before a batch of outcomes has told how many they are.
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "10s"])
            try await fleet.send(.topic("news"), id: "swapped")
            try await eventually("the guard stops the route") {
                try await streams.routes.state(of: number).isPausedByGuard
            }
            try await eventually("all outcomes are applied") {
                try await fleet.unfinishedEntries().keys.allSatisfy { !$0.hasSuffix("}outcomes") }
            }
            let suspects = try await streams.quarantine.state(of: number).tokens
            #expect(try await Self.moved(devices, fleet) == 0)
            #expect(try await Self.count(devices, fleet).kept == 2_000)
            #expect(suspects >= 20)

            fleet.simulator.declare(.alive, of: devices.map(\.token), provider: .apns)
            #expect(try fleet.apus("quarantine", "restore", "--route", "\(Fleet.app)/apns/production").code == 0)
            #expect(try await fleet.completion(of: "swapped").total(.accepted) == 2_000)
            #expect(try await Self.count(devices, fleet).kept == 2_000)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
