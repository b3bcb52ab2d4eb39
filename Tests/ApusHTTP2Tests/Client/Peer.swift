import ApusHTTP2

/// A client whose peer is written by hand; its events are collected.
final class Peer {
    private var client: HTTP2ClientSession
    private(set) var retryAfter: String?

    init(_ configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration()) throws {
        self.client = try HTTP2ClientSession(configuration: configuration)
    }

    var isFinished: Bool { self.client.isFinished }

    func receive(_ bytes: [UInt8]) { self.client.receive(bytes.span, now: 0) }

    func outbound() -> [UInt8] { self.client.outbound() }

    func events() -> [ClientEvent] { self.client.events() }

    /// Returns ``events()`` with the header values and bodies that were kept of answers.
    func eventRecords() -> [EventRecord] {
        var records: [EventRecord] = []
        while let event = self.client.nextEvent() {
            guard case .answered(let answer) = event else {
                records.append(EventRecord(event: ClientEvent(event)))
                continue
            }
            var fields: [HTTP2AnswerField: String] = [:]
            for field in HTTP2AnswerField.allCases { fields[field] = self.client.value(of: field, in: answer) }
            records.append(EventRecord(event: ClientEvent(event), fields: fields, body: self.client.body(of: answer)))
        }
        return records
    }

    func close() { self.client.close(.transport("closed")) }

    @discardableResult
    func submit(_ tag: UInt64, _ template: RequestTemplate = Samples.template) -> HTTP2Submission {
        let token = Samples.token
        return self.client.submit(
            template,
            authorization: Samples.authorization,
            token: token.span,
            id: RequestID(high: 0, low: tag),
            tag: tag,
            deadline: .max,
        )
    }

    /// The next answer; its Retry-After is kept.
    func answer() -> HTTP2Answer? {
        while let event = self.client.nextEvent() {
            guard case .answered(let answer) = event else { continue }
            self.retryAfter = self.client.value(of: .retryAfter, in: answer)
            return answer
        }
        return nil
    }
}

/// An event, with what was kept of an answer.
struct EventRecord: Hashable {
    var event: ClientEvent
    var fields: [HTTP2AnswerField: String] = [:]
    var body: [UInt8] = []
}
