import ApusHTTP2

/// A client whose peer is written by hand. What it was told is collected.
final class Peer {
    private var client: HTTP2ClientSession
    private(set) var retryAfter: String?

    init(_ engine: HTTP2Engine, _ configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration()) throws {
        var configuration = configuration
        configuration.engine = engine
        self.client = try HTTP2ClientSession(configuration: configuration)
    }

    var isFinished: Bool { self.client.isFinished }

    func say(_ bytes: [UInt8]) { self.client.receive(bytes.span, now: 0) }

    func heard() -> [UInt8] { self.client.outbound() }

    func told() -> [Told] { self.client.told() }

    /// As ``told()``, with what was kept of answers.
    func heardEvents() -> [Heard] {
        var heard: [Heard] = []
        while let event = self.client.nextEvent() {
            guard case .answered(let answer) = event else {
                heard.append(Heard(told: Told(event)))
                continue
            }
            var fields: [String?] = []
            for field in HTTP2AnswerField.allCases { fields.append(self.client.value(of: field, in: answer)) }
            heard.append(Heard(told: Told(event), fields: fields, body: self.client.body(of: answer)))
        }
        return heard
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

/// An event, and what an answer brought.
struct Heard: Hashable {
    var told: Told
    var fields: [String?] = []
    var body: [UInt8] = []
}
