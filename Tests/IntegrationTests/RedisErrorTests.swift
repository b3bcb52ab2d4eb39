import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// All three services go on soon after Redis has answered everything with an error, with what is no answer, or not at all.
@Suite(.serialized) struct RedisErrorTests {
    /// The faults, in four parts for tests of a minute each.
    private static let faults: [(name: String, behavior: RedisProxy.Behavior)] =
        RedisProxy.faultReplies.map { ($0, .answer($0)) } + [("no answer", .ignore), ("closed", .close)]
    private static let parts = 4
    /// The one answer that is a good one: to the question for devices it says the time, how many there are, and none of them.
    private static let answerWithoutDevices = "*2\r\n:1\r\n:2\r\n"
    /// The time from the cure to the end of what was published meanwhile: at most, and for the middle one of all faults,
    /// which takes a second on a machine without other work.
    private static let recoveryMax = Duration.seconds(20)
    private static let recoveryMedianMax = Duration.seconds(6)

    @Test(arguments: 0..<Self.parts)
    func `Whatever Redis answers, dispatcher, feedback and registration go on when it is over`(_ part: Int) async throws
    {
        try await Fleet.with { fleet in
            let proxy = try await RedisProxy.start(to: fleet.redis.port)
            let devices = try await fleet.register(1, providers: [.apns])
            let settings = ["lease": "2s"]
            let services = [
                try await fleet.start("dispatcher", settings, redisURL: proxy.url),
                try await fleet.start("feedback", settings, redisURL: proxy.url),
                try await fleet.startRegistration(settings, redisURL: proxy.url).service,
            ]
            var recoveries: [(time: Duration, fault: String)] = []
            for (number, fault) in Self.faults.enumerated() where number % Self.parts == part {
                proxy.set(fault.behavior)
                try await fleet.send(.devices([devices[0].id]), id: "s\(number)", lane: .express)
                try await Self.register("new-\(number)", fleet)
                // Each service has several connections, and each tries again a few times a second.
                try await eventually("\(fault.name) is met") { proxy.interceptedCount >= 12 }
                try await Task.sleep(for: .milliseconds(700))
                proxy.set(.forward)
                let cured = ContinuousClock.now
                try await eventually("after \(fault.name) all go on", timeout: Self.recoveryMax) {
                    let app = try AppID(Fleet.app)
                    let isRegistered = try await fleet.installation.store.get(app, try DeviceID("new-\(number)")) != nil
                    let receipts = try await fleet.receipts(of: "s\(number)")
                    return isRegistered && receipts.contains { $0.kind == .final && $0.planned == 1 }
                }
                recoveries.append((.now - cured, fault.name))
                for service in services { try service.checkIsRunning() }
            }
            let sorted = recoveries.sorted { $0.time < $1.time }
            #expect(sorted[sorted.count / 2].time <= Self.recoveryMedianMax, "\(sorted)")
            for service in services {
                try await eventually("\(service.name) is ready") { try await service.get("/readyz").status == 200 }
            }
            for (number, fault) in Self.faults.enumerated() where number % Self.parts == part {
                let accepted = fleet.accepted(of: "s\(number)")
                let isLie = fault.name == Self.answerWithoutDevices && accepted.isEmpty
                #expect(isLie || accepted == [devices[0].token: 1], "\(fault.name)")
            }
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let letters = try await fleet.installation.streams.deadLetters.page(shard: shard, before: "+").letters
                #expect(letters.isEmpty)
            }
            for service in services { try await service.terminate() }
            await proxy.stop()
        }
    }

    private static func register(_ device: String, _ fleet: Fleet) async throws {
        let sample = SampleDevice(app: device, index: 0)
        let registration = DeviceRegistration(device: device, provider: sample.provider, token: sample.token)
        let command = RegistrationCommand(app: Fleet.app, action: .register(registration))
        let keys = fleet.installation.streams.home(app: Fleet.app, device)
        let add = RedisCommand("XADD", .text(keys.register), "*", "m", .bytes(try command.encode()))
        _ = try await fleet.client.send(add, on: keys.tag)
    }
}
