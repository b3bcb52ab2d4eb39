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
struct ImportAPI: Sendable {
    let store: DeviceStore
    let hosts: WebPushHosts
    let metrics: RegistrationMetrics
    let shared: SharedMetrics

    /// Answers with the head at once; the body follows the request's.
    func answer(_ call: APICall) async throws -> APIResponse {
        _ = try call.request.contentType([.ndjson])
        let (app, body) = (call.app, call.request.stream)
        let stream = ResponseBody { writer in
            var lines = LineSplitter(lineBytesMax: APILimits.bodyBytesMax, linesMax: APILimits.importLinesMax)
            for try await bytes in body {
                lines.append(bytes.readableBytesView)
                try await self.write(&lines, app, to: &writer)
                if lines.isOver { break }
            }
            lines.finish()
            try await self.write(&lines, app, to: &writer)
            try await writer.finish(nil)
        }
        return APIResponse(status: .ok, headers: [.contentType: MediaType.ndjson.name], stream: stream)
    }

    // Concurrent, as the writer's own methods are: it must not change hands.
    @concurrent
    private func write(
        _ lines: inout LineSplitter,
        _ app: AppID,
        to writer: inout any ResponseBodyWriter,
    ) async throws {
        while let batch = self.batch(&lines) {
            var text: [UInt8] = []
            for answer in await self.register(batch, app) { answer.append(to: &text) }
            try await writer.write(ByteBuffer(bytes: text))
        }
    }

    /// A line, read.
    private enum Entry: Sendable {
        case registration(Int, DeviceRegistration)
        case refused(ImportAnswer)
    }

    /// The next lines that may be stored at once: a device that comes twice is for the next batch, so that the last line about
    /// it is the one that counts.
    private func batch(_ lines: inout LineSplitter) -> [Entry]? {
        guard lines.next != nil else { return nil }
        var entries: [Entry] = []
        var devices: Set<String> = []
        while entries.count < APILimits.importBatchMax, let line = lines.next {
            let entry = self.read(line)
            if case .registration(_, let registration) = entry {
                guard devices.insert(registration.device).inserted else { break }
            }
            lines.removeNext()
            entries.append(entry)
        }
        return entries
    }

    private func read(_ line: LineSplitter.Line) -> Entry {
        do throws(ProblemDetails) {
            guard let bytes = line.bytes else {
                throw ProblemDetails(.contentTooLarge, line.isBeyond ? Self.tooMany : Self.tooLong)
            }
            return .registration(line.number, try RegistrationBody.read(line: bytes, hosts: self.hosts))
        } catch {
            return .refused(ImportAnswer(line: line.number, problem: error))
        }
    }

    private static let tooLong = "a line must have at most \(APILimits.bodyBytesMax) bytes"
    private static let tooMany = "an import must have at most \(APILimits.importLinesMax) lines; the rest was not read"

    private func register(_ batch: [Entry], _ app: AppID) async -> [ImportAnswer] {
        await withTaskGroup(of: (Int, ImportAnswer).self) { group in
            for (index, entry) in batch.enumerated() { group.addTask { (index, await self.register(entry, app)) } }
            var answers = [ImportAnswer?](repeating: nil, count: batch.count)
            for await (index, answer) in group { answers[index] = answer }
            return answers.compactMap(\.self)
        }
    }

    private func register(_ entry: Entry, _ app: AppID) async -> ImportAnswer {
        switch entry {
        case .refused(let answer):
            return answer
        case .registration(let line, let registration):
            do throws(StoreError) {
                let result = try await self.store.register(app, registration)
                if let badge = registration.badge, let device = try? DeviceID(registration.device) {
                    _ = try await self.store.setBadge(app, device, to: badge)
                }
                let label = DeviceChange(change: result.change.metric, source: .http)
                self.shared.add(to: self.metrics.changes[result.device.realm.provider, label])
                return ImportAnswer(line: line, device: registration.device, isNew: result.change == .created)
            } catch {
                return ImportAnswer(line: line, device: registration.device, problem: ProblemDetails(error))
            }
        }
    }
}

/// What became of a line.
struct ImportAnswer: Sendable {
    /// From 1.
    let line: Int
    /// Nil: it could not be read.
    let device: String?
    let status: Int
    let problem: ProblemDetails?

    /// The device is stored.
    init(line: Int, device: String, isNew: Bool) {
        self.line = line
        self.device = device
        self.status = isNew ? HTTPResponse.Status.created.code : HTTPResponse.Status.ok.code
        self.problem = nil
    }

    /// It was not.
    init(line: Int, device: String? = nil, problem: ProblemDetails) {
        self.line = line
        self.device = device
        self.status = problem.kind.status.code
        self.problem = problem
    }

    /// As a line of JSON: a problem has the members of RFC 9457 that matter here.
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
