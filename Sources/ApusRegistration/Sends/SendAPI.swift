internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import HTTPTypes

/// Accepts sends from backends without access to Redis: the same command goes into the same mailbox as any publisher's, so it is checked,
/// counted and reported alike.
struct SendAPI: Sendable {
    let streams: SendStreams
    let changes: ReplicatedChanges
    /// The apps that dispatchers have.
    let apps: AppsOfDispatchers
    /// The publishers with mailboxes of their own.
    let publishers: @Sendable () -> [PublisherName: PublisherSettings]
    /// The names of an app's receipt streams.
    let receiptStreams: @Sendable (AppID) -> [String]
    let clock: any WallClock

    private static let idempotencyKeyName = HTTPField.Name("idempotency-key")

    /// Answers `POST …/sends`.
    func publish(_ call: APICall) async throws -> APIResponse {
        let type = try call.request.contentType([.json, .protobuf])
        var command = try SendBody.read(call.request.body, as: type, app: call.app, now: self.clock.now())
        try SendBody.checkReplyTo(
            of: command,
            among: self.publishers(),
            named: self.receiptStreams(call.app),
        )
        command.id = try Self.id(of: command, header: try Self.idempotencyKey(call))
        // With a key it would live where that puts it, and a direct send, which has no ledger, could not be found by its id.
        command.idempotencyKey = ""
        let lane = try Self.lane(call)
        // A receipt that goes to the publisher's own stream is not seen here.
        guard command.dryRun, command.replyTo.isEmpty else { return try await self.publish(command, in: lane, call) }
        return try await self.tryOut(command, in: lane, call)
    }

    /// Publishes a dry run and answers with its result, or where to ask for it when no dispatcher has it in time.
    private func tryOut(_ command: SendCommand, in lane: Lane, _ call: APICall) async throws -> APIResponse {
        let (text, isDuplicate) = try await self.publish(command, in: lane)
        guard let send = try? SendID(text) else { return Self.accepted(text, call, isDuplicate: isDuplicate) }
        let end = ContinuousClock.now + APILimits.dryRunWait
        var pause = Duration.milliseconds(10)
        do {
            let dispatchers = ServiceAvailability(of: "dispatcher", among: try await self.streams.processes.all())
            guard !dispatchers.running.isEmpty else { return Self.accepted(text, call, isDuplicate: isDuplicate) }
            while ContinuousClock.now < end {
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .milliseconds(320))
                let now = self.clock.now()
                if let status = try await self.streams.outcomes.status(app: call.app, send: send, now: now),
                    status.isOver
                {
                    return try await self.answer(status, call)
                }
            }
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
        return Self.accepted(text, call, isDuplicate: isDuplicate)
    }

    /// Answers `POST …/devices/{device}/test`.
    func test(_ call: APICall, _ devices: DeviceAPI) async throws -> APIResponse {
        let device = try call.device()
        if !call.request.body.isEmpty { _ = try call.request.contentType([.json]) }
        let words = try TestBody(call.request.body)
        guard try await devices.visible(device, to: call) != nil else { throw DeviceAPI.missing }
        var notification = Notification()
        notification.title = words.title
        notification.body = words.body
        // The person who waits for a test is looking at the screen.
        notification.expiry = .ttl(milliseconds: 60_000)
        var command = SendCommand(app: call.app.text, target: .devices([device.text]), notification: notification)
        command.id = Self.newID()
        // Nobody could ask again for this one.
        let (send, isDuplicate) = try await self.publish(command, in: .express, waitsForReplica: false)
        return Self.accepted(send, call, isDuplicate: isDuplicate)
    }

    /// Answers `GET …/sends/{send}`.
    func status(_ call: APICall) async throws -> APIResponse {
        let send = try call.send()
        do {
            guard let status = try await self.streams.outcomes.status(app: call.app, send: send, now: self.clock.now())
            else {
                throw Self.unknown
            }
            return try await self.answer(status, call, obstacles: try await self.obstacles(status, of: call.app))
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
    }

    /// The services without which a send stands still.
    static let neededServices: [ServiceName] = [.dispatcher, .feedback]

    /// The reasons for which a service does not work on a send.
    enum ServiceObstacle: String, CaseIterable {
        case notRunning = "not_running"
        case notReady = "not_ready"
    }

    /// Returns what keeps a send from going on: its routes on which recipients wait, and services of which no process runs or is ready. What
    /// lies on servers that are away is left out.
    private func obstacles(_ status: SendStatus, of app: AppID) async throws -> [JSONValue] {
        guard !status.isOver else { return [] }
        let needed = try await SendDependencies(of: app.text, routes: status.routes, in: self.streams)
        let services = Self.neededServices.compactMap { service -> JSONValue? in
            guard let processes = needed.processes else { return nil }
            let running = ServiceAvailability(of: service.rawValue, among: processes).running
            guard running.allSatisfy({ $0.problem != nil }) else { return nil }
            let code: ServiceObstacle = running.isEmpty ? .notRunning : .notReady
            return [
                "service": .string(service.rawValue), "code": .string(code.rawValue),
                "detail": .string(running.first?.problem ?? ""),
            ]
        }
        let routes = needed.routes.flatMap { condition in
            condition.obstacles.map { obstacle -> JSONValue in
                [
                    "route": .string(condition.route.name), "code": .string(obstacle.code.rawValue),
                    "detail": .string(obstacle.detail),
                ]
            }
        }
        return services + routes
    }

    /// Answers with where a send stands, and what apps reported of it.
    ///
    /// - Parameter obstacles: what keeps it from going on.
    private func answer(
        _ status: SendStatus,
        _ call: APICall,
        obstacles: [JSONValue] = [],
    ) async throws -> APIResponse {
        let tally = try await self.streams.events.counts(app: call.app.text, send: status.send)
        var json = status.json
        json["events"] = .object(tally.json)
        let rate = tally.openRate(accepted: status.total(.accepted))
        if !obstacles.isEmpty { json["obstacles"] = .array(obstacles) }
        json["open_rate"] = rate.flatMap { JSONNumber($0) }.map { JSONValue.number($0) } ?? .null
        return .json(.ok, json)
    }

    /// Answers `GET …/sends`.
    func list(_ call: APICall) async throws -> APIResponse {
        let query = try SendListQuery(call.path)
        do {
            let page = try await self.streams.sendLists.page(
                of: call.app,
                limit: query.limit,
                from: query.cursor,
                state: query.state,
                search: query.search,
            )
            let now = self.clock.now()
            var sends = page.rows.map { row in
                JSONValue.object(SendStatus(send: row.send, ledger: row.ledger, now: now).json)
            }
            if query.isForAnyPlace, !page.rows.contains(where: { $0.send == query.search }),
                let direct = try await self.streams.sendLists.direct(query.search, of: call.app, now: now)
            {
                sends.insert(.object(direct.json), at: 0)
            }
            return .json(
                .ok,
                [
                    "sends": .array(sends),
                    "next": page.next.map { .string("\($0)") } ?? .null,
                ]
            )
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
    }

    /// Answers `PATCH …/sends/{send}`.
    func control(_ call: APICall) async throws -> APIResponse {
        let send = try call.send()
        _ = try call.request.contentType([.mergePatch, .json])
        let body = try SendControlBody(call.request.body)
        do {
            guard let found = try await self.streams.control.find(app: call.app.text, send: send.text) else {
                throw try await self.absence(of: send, call)
            }
            var ledger = found.ledger
            for command in body.commands {
                func record(_ detail: String) async throws {
                    let entry = AuditEntry(
                        "send.\(command.name)",
                        of: send.text,
                        app: call.app.text,
                        detail: detail,
                        by: call.caller.asOperator
                    )
                    try await self.streams.audit.record(entry)
                }
                if command.isTooLate(for: ledger) {
                    try await record(command.detailOfRefusal(ledger))
                    throw Self.lateness(ledger)
                }
                try await record(command.detail)
                let key = SendKey(app: call.app.text, id: send.text)
                switch try await self.streams.control.apply(command, to: key, at: found.places) {
                case .ok(let current): ledger = current
                case .unknown: throw try await self.absence(of: send, call)
                case .over:
                    // It ended, or another cancelled it, after it was found.
                    let now = try await self.streams.control.find(app: call.app.text, send: send.text)?.ledger ?? ledger
                    try await record(command.detailOfRefusal(now))
                    throw Self.lateness(now)
                }
            }
            return .json(.ok, SendStatus(send: send.text, ledger: ledger, now: self.clock.now()).json)
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
    }

    /// Returns the reason why a command for a send is too late.
    private static func lateness(_ ledger: SendLedger) -> ProblemDetails {
        let isCancelled = ledger.isCancelled || ledger.state == .cancelled
        return ProblemDetails(
            .conflict,
            isCancelled ? "the send was cancelled for good" : "the send has ended: every recipient has its outcome"
        )
    }

    /// The problem of a send that has neither a ledger nor a receipt where it is searched.
    private static let unknown = ProblemDetails(
        .notFound,
        "nothing is known of such a send, or no longer; what became of one to a few devices is in its receipt alone"
    )

    /// Returns the reason why there is no ledger to control.
    private func absence(of send: SendID, _ call: APICall) async throws -> ProblemDetails {
        let status = try await self.streams.outcomes.status(app: call.app, send: send, now: self.clock.now())
        guard let status else { return Self.unknown }
        return ProblemDetails(
            .conflict,
            status.isOver
                ? "the send has ended: every recipient has its outcome"
                : "no dispatcher has taken the send yet, or it goes to a few devices at once and cannot be controlled"
        )
    }

    private func publish(_ command: SendCommand, in lane: Lane, _ call: APICall) async throws -> APIResponse {
        let (send, isDuplicate) = try await self.publish(command, in: lane)
        return Self.accepted(send, call, isDuplicate: isDuplicate)
    }

    /// Writes a command into its mailbox; returns the send, and whether it was there before.
    ///
    /// - Parameter waitsForReplica: false for a send that whoever asks again cannot name: it would be sent twice.
    /// - Throws: a problem; one of 503 that names the send when it is written, and it is not known that a replica has it; one of 503, too,
    ///   while no dispatcher has the app, and then nothing is written.
    func publish(
        _ command: SendCommand,
        in lane: Lane,
        waitsForReplica: Bool = true,
    ) async throws -> (send: String, isDuplicate: Bool) {
        try await self.checkApp(command.app)
        var command = command
        command.publishedAtNanoseconds = self.clock.nanosecondsSince1970()
        let mailboxes = self.streams.mailboxes
        let outcome: Mailboxes.PublishResult
        do {
            let prepared = mailboxes.prepare(command, encoded: try command.encode(), lane: lane)
            let hasEffect = { (result: Mailboxes.PublishResult) in waitsForReplica && result.isWritten }
            outcome = try await self.changes.make(
                [prepared.keys.tag],
                of: "send \(command.id)",
                where: hasEffect
            ) { try await mailboxes.publish(prepared) }
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
        switch outcome {
        case .new(let send, _): return (send, false)
        case .duplicate(let send): return (send, true)
        case .conflict:
            let term = "for dispatcher.idempotency_window, and as long as its ledger is kept"
            throw ProblemDetails(.conflict, "that id or key names a send with another content, \(term)")
        case .full(let entries, let milliseconds):
            throw ProblemDetails.unavailable(
                "the mailbox is full",
                retryAfterSeconds: Int((milliseconds + 999) / 1_000),
                cause: "\(entries) commands wait in \(lane.name)",
            )
        }
    }

    /// Refuses an app that no dispatcher has had, for the moment: it may stand in the configuration of this service before one has read it.
    private func checkApp(_ app: String) async throws(ProblemDetails) {
        do throws(Problem) {
            try await self.apps.check(app)
        } catch {
            throw .unavailable(
                "no dispatcher has the app yet",
                retryAfterSeconds: APILimits.appRetrySeconds,
                cause: "no dispatcher has had a route of the app \(app)",
            )
        }
    }

    private static func accepted(_ send: String, _ call: APICall, isDuplicate: Bool) -> APIResponse {
        var answer = APIResponse.json(.accepted, ["send": .string(send), "duplicate": .bool(isDuplicate)])
        answer.headers[.location] = "/v1/apps/\(call.app)/sends/\(send)"
        return answer
    }

    /// Returns the id of a send: the publisher's; else one from its key, so that the key finds the send again; else a new one.
    private static func id(of command: SendCommand, header: String?) throws(ProblemDetails) -> String {
        if let header, !command.idempotencyKey.isEmpty, header != command.idempotencyKey {
            throw .invalid("#/idempotency_key", "must be that of the header Idempotency-Key")
        }
        let key = header ?? command.idempotencyKey
        guard !key.isEmpty else { return command.id.isEmpty ? Self.newID() : command.id }
        guard command.id.isEmpty else {
            throw .invalid("#/id", "and an idempotency key exclude each other: the same id again is the same send, too")
        }
        try Self.check(idempotencyKey: key)
        return "k" + Hexadecimal.encode(SHA256.hash(utf8: "\(command.app)\u{0}\(key)").prefix(16))
    }

    /// Returns the key that a request's header gives; nil for none, and for an empty one.
    static func idempotencyKey(_ call: APICall) throws(ProblemDetails) -> String? {
        guard let key = Self.idempotencyKeyName.flatMap({ call.request.headers[$0] }), !key.isEmpty else { return nil }
        try Self.check(idempotencyKey: key)
        return key
    }

    private static func check(idempotencyKey key: String) throws(ProblemDetails) {
        guard key.utf8.count <= Limits.idempotencyKeyBytesMax, key.utf8.allSatisfy({ (0x20...0x7e).contains($0) })
        else {
            let rule = "at most \(Limits.idempotencyKeyBytesMax) printable ASCII characters"
            throw ProblemDetails(.malformedRequest, "an idempotency key must have \(rule)")
        }
    }

    static func newID() -> String { "h" + Hexadecimal.encode(SecureRandom.bytes(16)) }

    static func lane(_ call: APICall) throws(ProblemDetails) -> Lane {
        guard let name = call.path.query("lane") else { return .bulk }
        guard let lane = Lane.allCases.first(where: { $0.name == name }) else {
            throw ProblemDetails(.malformedRequest, "lane must be express or bulk")
        }
        return lane
    }
}

extension Mailboxes.PublishResult {
    /// True when the command stands in its mailbox, or has stood there.
    fileprivate var isWritten: Bool {
        switch self {
        case .new, .duplicate: true
        case .conflict, .full: false
        }
    }
}

/// Reads the content of a test notification. It is pure.
struct TestBody: Hashable {
    private(set) var title = "Test"
    private(set) var body = "Notifications reach this device."

    /// Reads an object with `title` and `body`, either or both of which may be missing, or an empty body.
    init(_ bytes: [UInt8]) throws(ProblemDetails) {
        guard !bytes.isEmpty else { return }
        var reader = MemberReader(try RegistrationBody.object(bytes))
        for (name, path) in [("title", \TestBody.title), ("body", \TestBody.body)] {
            guard let text = reader.text(name) else { continue }
            if text.utf8.count > Limits.textBytesMax {
                reader.note(name, "must have at most \(Limits.textBytesMax) bytes")
            }
            if text.utf8.contains(0) { reader.note(name, "must not hold a NUL") }
            self[keyPath: path] = text
        }
        try reader.check()
    }
}

/// Reads the query of a list of sends. It is pure.
struct SendListQuery: Hashable {
    private(set) var limit = APILimits.sendsPerPage
    private(set) var cursor: SendListCursor?
    private(set) var state: SendLists.State?
    private(set) var search = ""
    /// True when the search is for a send of any state, from the list's beginning.
    var isForAnyPlace: Bool { !self.search.isEmpty && self.state == nil && self.cursor == nil }

    /// Reads `limit`, `cursor`, `state` and `search`, each of which may be missing.
    init(_ path: APIPath) throws(ProblemDetails) {
        if let text = path.query("limit") {
            let most = StreamLimits.sendsPerPageMax
            guard let limit = Int(text), (1...most).contains(limit) else {
                throw ProblemDetails(.malformedRequest, "limit must be a whole number from 1 to \(most)")
            }
            self.limit = limit
        }
        if let text = path.query("cursor") {
            guard let cursor = SendListCursor(text) else {
                throw ProblemDetails(.malformedRequest, "cursor must be the member next of an earlier answer")
            }
            self.cursor = cursor
        }
        if let text = path.query("state") {
            guard let state = SendLists.State(rawValue: text) else {
                let words = SendLists.State.allCases.map(\.rawValue).joined(separator: ", ")
                throw ProblemDetails(.malformedRequest, "state must be one of \(words)")
            }
            self.state = state
        }
        if let text = path.query("search") {
            guard (try? SendID(text)) != nil else {
                throw ProblemDetails(.malformedRequest, "search must be a part of a send's id")
            }
            self.search = text
        }
    }
}

/// Reads what is to become of a send. It is pure.
struct SendControlBody: Hashable {
    /// The commands, in the order in which they are given.
    let commands: [SendControlCommand]

    /// Reads an object with `state`, `rate_per_second` or both.
    init(_ bytes: [UInt8]) throws(ProblemDetails) {
        var reader = MemberReader(try RegistrationBody.object(bytes))
        var commands: [SendControlCommand] = []
        if let rate = reader.number("rate_per_second") { commands.append(.rate(rate)) }
        switch reader.text("state") {
        case nil: break
        case "running": commands.append(.resume)
        case "paused": commands.append(.pause)
        case "cancelled": commands.append(.cancel)
        case .some: reader.note("state", "must be running, paused or cancelled")
        }
        self.commands = commands
        try reader.check()
        guard !commands.isEmpty else { throw .invalid("#", "must have state or rate_per_second") }
    }
}
