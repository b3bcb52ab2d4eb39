internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStreams
internal import Logging
internal import NIOCore

/// The app's backend: it writes the requests of devices into the register streams, and repeats each until it is answered.
final class SimulatedBackend: @unchecked Sendable {
    /// The stream that the answers come in.
    static let replyTo = "\(StreamKeys.replyPrefix)backend"
    /// The seconds after which a request without an answer is repeated.
    private static let patienceSeconds = 1.0...10.0
    private static let pause = Duration.milliseconds(50)

    private let fleet: SimulatedFleet
    private let scheduler: Scheduler
    /// All requests, in their order.
    private(set) var requests: [SimulatedRequest] = []
    private var open: [String: SimulatedRequest] = [:]
    private var byID: [String: SimulatedRequest] = [:]
    private var cursor = "0"
    /// The number of times that Redis has lost writes.
    private var losses = 0
    /// Is called when a request is on its way.
    var onRequest: () -> Void = {}

    init(_ fleet: SimulatedFleet, _ scheduler: Scheduler) {
        self.fleet = fleet
        self.scheduler = scheduler
    }

    /// The requests that have no answer.
    var unanswered: [SimulatedRequest] { self.requests.filter { $0.answer == nil } }

    /// Sends a request until there is an answer.
    func answer(
        to action: RegistrationCommand.Action,
        of device: SimulatedDevice,
        asOf: UnixMilliseconds
    ) async throws -> SimulatedRequest.Answer {
        let request = SimulatedRequest(id: "r\(self.requests.count)", device: device, action, asOf: asOf)
        self.requests.append(request)
        self.byID[request.id] = request
        self.open[request.id] = request
        defer { self.open[request.id] = nil }
        let (streams, bytes) = (self.fleet.installation.streams, try request.command.encode())
        let keys = streams.home(app: device.app, device.id)
        while true {
            self.onRequest()
            let command = RedisCommand("XADD", .text(keys.register), "*", "m", .bytes(bytes))
            let entry = try? await streams.client.send(command, on: keys.tag)
            self.fleet.logger.notice(
                "request",
                metadata: [
                    "id": "\(request.id)", "device": "\(device.name)", "action": "\(action)",
                    "entry": "\(entry?.root.string ?? "unknown")",
                ]
            )
            let patience = Double.random(in: Self.patienceSeconds, using: &self.scheduler.random)
            self.scheduler.call(at: self.scheduler.now + Int64(patience * 1e9), for: self.fleet.outside) {
                request.wake()
            }
            await request.wait()
            if let answer = request.answer { return answer }
        }
    }

    /// Sends a device's request over HTTP until there is an answer, as a phone does.
    ///
    /// - Returns: the answer, and true when an attempt before it had none, which may be carried out later.
    func answer(
        toHTTP action: RegistrationCommand.Action,
        of device: SimulatedDevice
    ) async throws -> (answer: SimulatedRequest.Answer, isLate: Bool) {
        let path = "/v1/apps/\(device.app)/devices/\(device.id)"
        let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
        var isLate = false
        while true {
            let patience = TimeAmount.milliseconds(
                Int64(Double.random(in: Self.patienceSeconds, using: &self.scheduler.random) * 1_000)
            )
            self.onRequest()
            let result =
                if case .register(let registration) = action {
                    await client.send("PUT", path, try registration.encode(), within: patience)
                } else {
                    await client.send("DELETE", path, [], within: patience)
                }
            self.fleet.logger.notice(
                "request over HTTP",
                metadata: ["device": "\(device.name)", "action": "\(action)", "result": "\(result)"]
            )
            switch result {
            case .unsent: break
            case .unanswered: isLate = true
            // The device that is to be deleted is not there.
            case .status(200), .status(201), .status(204), .status(404): return (.accepted, isLate)
            case .status(500...599), .status(409), .status(429): break
            case .status(let status): return (.refused(code: "\(status)"), isLate)
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Reads answers for ever.
    func readAnswers() async throws {
        let tag = HashTag(ofKey: Self.replyTo)
        while true {
            if !self.open.isEmpty {
                let before = self.losses
                let (receipts, cursor) = await self.fleet.receipts(in: Self.replyTo, on: tag, after: self.cursor)
                if self.losses == before { self.cursor = cursor }
                for receipt in receipts {
                    self.fleet.logger.notice("answer to \(receipt.send): \(receipt.problem?.code ?? "accepted")")
                    self.byID[receipt.send]?.take(receipt)
                }
            }
            try await Task.sleep(for: Self.pause)
        }
    }

    /// Begins anew with the stream of answers: new entries may have ids below those that Redis has forgotten.
    func readAgain() {
        self.cursor = "0"
        self.losses += 1
    }
}
