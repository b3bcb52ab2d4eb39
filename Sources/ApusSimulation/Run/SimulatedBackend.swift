internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStreams
internal import Logging
internal import NIOCore

/// The app's backend: it writes the requests of devices into the register streams, or asks over HTTP, and repeats each until it is answered.
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

    /// Sends a request about a device or a user until there is an answer.
    func answer(
        to action: RegistrationCommand.Action,
        about subject: String,
        of app: String,
        asOf: UnixMilliseconds
    ) async throws -> SimulatedRequest.Answer {
        let id = "r\(self.requests.count)"
        let request = SimulatedRequest(id: id, app: app, subject: subject, action, asOf: asOf)
        self.requests.append(request)
        self.byID[request.id] = request
        self.open[request.id] = request
        defer { self.open[request.id] = nil }
        let (streams, bytes) = (self.fleet.installation.streams, try request.command.encode())
        let keys = streams.home(app: app, subject)
        while true {
            self.onRequest()
            let command = RedisCommand("XADD", .text(keys.register), "*", "m", .bytes(bytes))
            let entry = try? await streams.client.send(command, on: keys.tag)
            self.fleet.logger.notice(
                "request",
                metadata: [
                    "id": "\(request.id)", "subject": "\(app)/\(subject)", "action": "\(action)",
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
    /// - Parameters:
    ///   - former: the user of the device until now.
    ///   - whole: what is asked for when there is no such device: it was pruned.
    /// - Returns: the answer, and true when an attempt before it had none, which may be carried out later.
    func answer(
        toHTTP action: RegistrationCommand.Action,
        of device: SimulatedDevice,
        from former: String,
        otherwise whole: RegistrationCommand.Action,
    ) async throws -> (answer: SimulatedRequest.Answer, isLate: Bool) {
        var (action, isLate) = (action, false)
        while true {
            let request = SimulatedRequest.HTTPRequest(action, of: device, from: former)
            self.onRequest()
            let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
            let result = await client.send(request.method, request.path, request.body, within: self.patience)
            self.fleet.logger.notice(
                "request over HTTP",
                metadata: ["device": "\(device.name)", "action": "\(action)", "result": "\(result)"]
            )
            switch result {
            case .unsent: break
            case .unanswered, .statuses, .document: isLate = true
            case .status(200), .status(201), .status(204): return (.accepted, isLate)
            // The device that is to be deleted is not there.
            case .status(404) where request.method == "DELETE": return (.accepted, isLate)
            case .status(404): action = whole
            case .status(500...599), .status(409), .status(429): break
            case .status(let status): return (.refused(code: "\(status)"), isLate)
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Forgets a user of an app over HTTP, until that is done.
    ///
    /// - Returns: true when an attempt had no answer, which may be carried out later.
    func forget(user: String, of app: String) async throws -> Bool {
        var isLate = false
        while true {
            self.onRequest()
            let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
            let result = await client.send("DELETE", "/v1/apps/\(app)/users/\(user)", within: self.patience)
            self.fleet.logger.notice("user forgotten", metadata: ["user": "\(app)/\(user)", "result": "\(result)"])
            if result == .status(204) { return isLate }
            if result == .unanswered { isLate = true }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Imports devices of an app until each line is accepted.
    ///
    /// - Returns: true when an attempt had no answer to some line, which may be carried out later.
    func importDevices(_ devices: [(device: SimulatedDevice, state: DeviceState)], of app: String) async throws -> Bool
    {
        let body = devices.map { $0.device.line(for: $0.state) + "\n" }.joined()
        var isLate = false
        while true {
            self.onRequest()
            let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
            let path = "/v1/apps/\(app)/devices:import"
            let result = await client.send("POST", path, Array(body.utf8), as: .lines, within: self.patience)
            self.fleet.logger.notice(
                "import",
                metadata: ["devices": "\(devices.map(\.device.name))", "result": "\(result)"]
            )
            switch result {
            case .statuses(let statuses):
                if (1...devices.count).allSatisfy({ [200, 201].contains(statuses[$0]) }) { return isLate }
                if statuses.count < devices.count { isLate = true }
            case .status, .document, .unsent: break
            case .unanswered: isLate = true
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Publishes a send over HTTP; returns the status of the answer, nil when there is none.
    func publish(_ send: SimulatedSend, _ command: SendCommand) async throws -> Int? {
        let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
        let path = "/v1/apps/\(send.key.app)/sends?lane=\(send.lane.name)"
        self.onRequest()
        let result = await client.send("POST", path, try command.encode(), within: self.patience)
        self.fleet.logger.notice(
            "published over HTTP",
            metadata: ["send": "\(send.key)", "result": "\(result)", "writes": "\(self.fleet.writes)"]
        )
        if case .status(let status) = result { return status }
        return nil
    }

    /// Asks over HTTP where a send stands, until there is an answer; nil when nothing is known of it.
    func status(of send: SendKey) async throws -> JSONValue? {
        while true {
            let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
            switch await client.document("/v1/apps/\(send.app)/sends/\(send.id)", within: self.patience) {
            case .document(let document): return document
            case .status(404): return nil
            default: try await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Asks over HTTP for a change of a send, once.
    func control(_ send: SendKey, _ command: SendControlCommand) async throws -> SimulatedHTTPClient.Result {
        let state =
            switch command {
            case .pause: "paused"
            case .resume: "running"
            case .cancel: "cancelled"
            case .rate: preconditionFailure("a rate is no state")
            }
        self.onRequest()
        let client = SimulatedHTTPClient(loop: self.fleet.outsideLoop)
        let body = Array("{\"state\": \"\(state)\"}".utf8)
        let path = "/v1/apps/\(send.app)/sends/\(send.id)"
        let result = await client.send("PATCH", path, body, as: .json, within: self.patience)
        self.fleet.logger.notice(
            "controlled over HTTP",
            metadata: ["send": "\(send)", "state": "\(state)", "result": "\(result)"]
        )
        return result
    }

    /// The time until a request counts as not answered.
    private var patience: TimeAmount {
        .milliseconds(Int64(Double.random(in: Self.patienceSeconds, using: &self.scheduler.random) * 1_000))
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
