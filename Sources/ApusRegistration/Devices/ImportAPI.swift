internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusStore
internal import HTTPTypes
internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// Registers many devices: `POST …/devices:import`, one JSON object a line (NDJSON), one answer a line, in their order, while
/// the rest is still on its way. A line that cannot be taken stops nothing.
///
/// Three tasks work at the same time: one reads lines, one stores those that are there, one writes answers. What waits between them has a
/// limit. Answers wait while a client sends its whole body before it reads one: if they did not, both sides would wait for each other.
struct ImportAPI: Sendable {
    let store: DeviceStore
    let changes: ReplicatedChanges
    /// The rules of an app for subscriptions.
    let subscriptions: @Sendable (AppID) -> SubscriptionRules
    /// The shares of apps that hold the lines and answers of their imports.
    let memory: MemoryShares
    let metrics: RegistrationMetrics
    let shared: SharedMetrics

    /// Answers with the head at once; the body follows the request's.
    func answer(_ call: APICall) async throws -> APIResponse {
        _ = try call.request.contentType([.ndjson])
        let memory = self.memory.importShare(of: call.app)
        guard let reservation = memory.reservation(of: APILimits.importBytes) else {
            throw ProblemDetails.memorySpent
        }
        call.request.askForContent()
        let (app, body) = (call.app, call.request.stream)
        let stream = ResponseBody { writer in
            let lines = BoundedQueue<Entry>(costMax: APILimits.importLinesBytesMax, budget: memory)
            let answers = BoundedQueue<ByteBuffer>(costMax: APILimits.importAnswersBytesMax, budget: memory)
            // A task of its own: it must not keep the connection's event loop from other requests.
            let work = Task { try await self.carryOut(app, body, lines, answers) }
            do {
                while let parts = await answers.takeAll() {
                    for part in parts { try await writer.write(part) }
                }
                try await work.value
            } catch {
                work.cancel()
                await answers.close()
                _ = try? await work.value
                throw error
            }
            try await writer.finish(nil)
            withExtendedLifetime(reservation) {}
        }
        return APIResponse(status: .ok, headers: [.contentType: MediaType.ndjson.name], stream: stream)
    }

    /// The times that a line has.
    private struct Times: Sendable {
        let registeredAt: UnixMilliseconds?
        let changedAt: UnixMilliseconds?
    }

    /// A line, read.
    private enum Entry: Sendable {
        case registration(Int, DeviceRegistration, Times)
        case refused(ImportAnswer)
    }

    /// Reads lines, and stores them, until the body ends or nobody takes answers any more.
    private func carryOut(
        _ app: AppID,
        _ body: RequestBody,
        _ lines: BoundedQueue<Entry>,
        _ answers: BoundedQueue<ByteBuffer>,
    ) async throws {
        async let stored: Void = self.storeLines(app, lines, answers)
        do {
            try await self.readLines(body, hosts: self.subscriptions(app).hosts, into: lines)
        } catch {
            await lines.finish()
            await stored
            throw error
        }
        await lines.finish()
        await stored
    }

    private func readLines(_ body: RequestBody, hosts: EndpointHosts, into lines: BoundedQueue<Entry>) async throws {
        var splitter = LineSplitter(lineBytesMax: APILimits.importLineBytesMax)
        for try await bytes in body {
            var rest = bytes.readableBytesView[...]
            repeat {
                rest = splitter.append(rest, linesMax: APILimits.importLinesAtOnce)
                guard await self.pass(splitter.take(), hosts, to: lines) else { return }
            } while !rest.isEmpty
        }
        splitter.finish()
        _ = await self.pass(splitter.take(), hosts, to: lines)
    }

    /// - Returns: false when nobody takes them any more.
    private func pass(_ read: [LineSplitter.Line], _ hosts: EndpointHosts, to lines: BoundedQueue<Entry>) async -> Bool
    {
        guard !read.isEmpty else { return true }
        let cost = read.reduce(0) { $0 + max($1.bytes?.count ?? 0, APILimits.importLineBytesMin) }
        return await lines.append(read.map { Self.read($0, hosts) }, cost: cost)
    }

    private static func read(_ line: LineSplitter.Line, _ hosts: EndpointHosts) -> Entry {
        do throws(ProblemDetails) {
            guard let bytes = line.bytes else { throw ProblemDetails(.contentTooLarge, Self.tooLong) }
            // The tokens of Live Activities, which a line of an export has too, are checked and not stored.
            let (registration, exported) = try RegistrationBody.read(line: bytes, hosts: hosts, DeviceLine.readExported)
            let times = Times(registeredAt: exported.registeredAt, changedAt: exported.changedAt)
            return .registration(line.number, registration, times)
        } catch {
            return .refused(ImportAnswer(line: line.number, .failure(error)))
        }
    }

    private static let tooLong = "a line must have at most \(APILimits.importLineBytesMax) bytes"

    /// Stores the lines that are there, again and again, and passes their answers on in their order.
    private func storeLines(
        _ app: AppID,
        _ lines: BoundedQueue<Entry>,
        _ answers: BoundedQueue<ByteBuffer>,
    ) async {
        while let batch = await lines.takeAll() {
            var text: [UInt8] = []
            for answer in await self.register(batch, app) { answer.append(to: &text) }
            guard await answers.append([ByteBuffer(bytes: text)], cost: text.count) else { break }
        }
        await lines.close()
        await answers.finish()
    }

    /// Stores the lines of a batch. Where changes wait for replicas and none confirms, each of them is answered so.
    private func register(_ batch: [Entry], _ app: AppID) async -> [ImportAnswer] {
        let dated = batch.compactMap { entry -> (registration: DeviceRegistration, times: Times)? in
            guard case .registration(_, let registration, let times) = entry else { return nil }
            return (registration, times)
        }
        let (registrations, times) = (dated.map(\.registration), dated.map(\.times))
        let results: [Result<RegisterResult.Change, ProblemDetails>]
        do {
            results = try await self.changes.make(registrations.isEmpty ? [] : self.store.allSlots) {
                await self.register(registrations, times, app)
            }
        } catch {
            let problem =
                error as? ProblemDetails ?? .unavailable("Redis is away", retryAfterSeconds: 1, cause: "\(error)")
            results = registrations.map { _ in .failure(problem) }
        }
        var left = results.makeIterator()
        return batch.map { entry in
            switch entry {
            case .refused(let answer): return answer
            case .registration(let line, let registration, _):
                guard let result = left.next() else { preconditionFailure("each registration has a result") }
                return ImportAnswer(line: line, device: registration.device, result)
            }
        }
    }

    private func register(
        _ registrations: [DeviceRegistration],
        _ times: [Times],
        _ app: AppID,
    ) async -> [Result<RegisterResult.Change, ProblemDetails>] {
        let serverKey = self.subscriptions(app).serverKey
        // A line's own time tells a repetition that its badge was set, too, so it is written last.
        let hasBadge = zip(registrations, times).map { $0.badge != nil && $1.registeredAt != nil }
        let stored = await self.store.register(
            app,
            registrations,
            asOf: times.map(\.registeredAt),
            changedAt: times.map(\.changedAt),
            assumedServerKey: serverKey,
            importing: hasBadge.map { $0 ? .beginning : .whole },
        )
        var results: [Result<RegisterResult.Change, ProblemDetails>] = []
        results.reserveCapacity(registrations.count)
        var (taken, badged) = ([Int](), [Int]())
        for (index, (registration, result)) in zip(registrations, stored).enumerated() {
            do throws(StoreError) {
                let result = try result.get()
                if result.change != .ignored {
                    taken.append(index)
                    if let badge = registration.badge, let device = try? DeviceID(registration.device),
                        case .changed = try await self.store.setBadge(app, device, to: badge), hasBadge[index]
                    {
                        badged.append(index)
                    }
                }
                let label = DeviceChange(change: result.change.metric, source: .http)
                self.shared.add(to: self.metrics.changes[result.device.realm.provider, label])
                results.append(.success(result.change))
            } catch {
                results.append(.failure(ProblemDetails(error)))
            }
        }
        let last = Self.lastOnes(badged, among: taken, of: registrations)
        let ended = await self.store.register(
            app,
            last.map { registrations[$0] },
            asOf: last.map { times[$0].registeredAt },
            changedAt: last.map { times[$0].changedAt },
            assumedServerKey: serverKey,
        )
        for (index, result) in zip(last, ended) {
            if case .failure(let error) = result { results[index] = .failure(ProblemDetails(error)) }
        }
        return results
    }

    /// Returns those of some registrations after which no other was taken that is about the same device or token.
    private static func lastOnes(
        _ numbers: [Int],
        among taken: [Int],
        of registrations: [DeviceRegistration],
    ) -> [Int] {
        guard !numbers.isEmpty else { return [] }
        var (devices, tokens, last) = (Set<String>(), Set<String>(), Set<Int>())
        for number in taken.reversed() {
            let isLastOfDevice = devices.insert(registrations[number].device).inserted
            let isLastOfToken = tokens.insert(registrations[number].token).inserted
            if isLastOfDevice, isLastOfToken { last.insert(number) }
        }
        return numbers.filter { last.contains($0) }
    }
}

/// The result of a line.
struct ImportAnswer: Sendable {
    /// The line's number, from 1.
    let line: Int
    /// Nil: it could not be read.
    let device: String?
    let status: Int
    let problem: ProblemDetails?

    /// Creates the answer to a line.
    init(line: Int, device: String? = nil, _ result: Result<RegisterResult.Change, ProblemDetails>) {
        self.line = line
        self.device = device
        switch result {
        case .success(let change):
            self.status = change == .created ? HTTPResponse.Status.created.code : HTTPResponse.Status.ok.code
            self.problem = nil
        case .failure(let problem):
            self.status = problem.kind.status.code
            self.problem = problem
        }
    }

    /// Appends the result as a line of JSON: a problem has the members of RFC 9457 that matter here.
    func append(to text: inout [UInt8]) {
        text += "{\"line\":\(self.line),\"status\":\(self.status)".utf8
        if let device {
            text += ",\"device\":".utf8
            JSONWriter.append(string: device, to: &text)
        }
        if let problem {
            text += ",\"type\":\"\(problem.kind.type)\",\"detail\":".utf8
            JSONWriter.append(string: problem.detail, to: &text)
            problem.appendParts(to: &text)
        }
        text += "}\n".utf8
    }
}
