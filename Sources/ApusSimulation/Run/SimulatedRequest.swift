internal import ApusCore
internal import ApusMessages

/// A request to the registration services, which is repeated until it is answered.
final class SimulatedRequest: @unchecked Sendable {
    /// The answer of a registration service.
    enum Answer: Hashable, Sendable {
        case accepted
        /// It was refused for a reason that has a name.
        case refused(code: String)
    }

    let id: String
    let app: String
    /// The id of the device or user that it is about.
    let subject: String
    let action: RegistrationCommand.Action
    /// The time of the request by the backend's clock, which does not jump; each repetition has the same.
    let asOf: UnixMilliseconds
    /// The answers, by the entry that each is about: a repetition is an entry of its own.
    private(set) var answers: [String: Set<Answer>] = [:]
    /// The first answer.
    private(set) var answer: Answer?
    private var waiter: CheckedContinuation<Void, Never>?

    init(
        id: String,
        app: String,
        subject: String,
        _ action: RegistrationCommand.Action,
        asOf: UnixMilliseconds,
    ) {
        self.id = id
        self.app = app
        self.subject = subject
        self.action = action
        self.asOf = asOf
    }

    /// Its name in reports, with what it is about.
    var name: String { "\(self.id) of \(self.app)/\(self.subject)" }

    /// The command that the backend writes.
    var command: RegistrationCommand {
        var command = RegistrationCommand(app: self.app, action: self.action)
        command.id = self.id
        command.asOf = self.asOf
        command.replyTo = SimulatedBackend.replyTo
        return command
    }

    /// A request of a device over HTTP.
    struct HTTPRequest {
        private(set) var method = "PUT"
        let path: String
        private(set) var body: [UInt8] = []

        /// Creates the request for an action.
        ///
        /// - Parameter former: the user of the device until now.
        init(_ action: RegistrationCommand.Action, of device: SimulatedDevice, from former: String) {
            let app = "/v1/apps/\(device.app)"
            let own = "\(app)/devices/\(device.id)"
            switch action {
            case .register(let registration):
                self.path = own
                guard let bytes = try? registration.encode() else { preconditionFailure("a registration has bytes") }
                self.body = bytes
            case .bindUser(_, let user): self.path = "\(app)/users/\(user)/devices/\(device.id)"
            case .unbindUser:
                (self.method, self.path) = ("DELETE", "\(app)/users/\(former)/devices/\(device.id)")
            case .subscribe(_, let topics): self.path = "\(own)/topics/\(topics[0])"
            case .unsubscribe(_, let topics): (self.method, self.path) = ("DELETE", "\(own)/topics/\(topics[0])")
            default: (self.method, self.path) = ("DELETE", own)
            }
        }
    }

    /// Takes a receipt.
    func take(_ receipt: SendReceipt) {
        let answer = receipt.problem.map { Answer.refused(code: $0.code) } ?? .accepted
        self.answers[receipt.id, default: []].insert(answer)
        if self.answer == nil { self.answer = answer }
        self.wake()
    }

    /// Waits for an answer, or for `wake`.
    func wait() async {
        guard self.answer == nil else { return }
        await withCheckedContinuation { self.waiter = $0 }
    }

    /// Ends a wait.
    func wake() {
        self.waiter?.resume()
        self.waiter = nil
    }
}
