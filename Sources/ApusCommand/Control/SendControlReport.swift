internal import ApusConsole
package import ApusCore
package import ApusStreams

/// Pauses, resumes, cancels or slows down a send by its id.
package struct SendControlReport: Sendable {
    private let streams: SendStreams
    private let app: String?
    private let send: String

    /// What a steered send looks like right after.
    package struct Report: Hashable, Sendable {
        /// Where it stands.
        package var status: SendStatus
        /// Recipients per second that it may reach; 0: as many as its routes allow.
        package var ratePerSecond: UInt32

        /// As JSON: the status, and the rate.
        package var json: JSONObject {
            var object = self.status.json
            object["rate_per_second"] = .integer(self.ratePerSecond)
            return object
        }

        /// As a line.
        package var line: String {
            let open = NumberText.grouped(self.status.total(.open))
            let planned = NumberText.grouped(self.status.planned)
            let rate = self.ratePerSecond == 0 ? "" : "  at most \(NumberText.grouped(self.ratePerSecond))/s"
            return "\(self.status.send)  \(self.status.phase.name)  \(open) of \(planned) open\(rate)"
        }
    }

    /// Creates the steering of one send.
    ///
    /// - Parameter app: nil when whichever app's send it is, if it is one app's only.
    package init(_ streams: SendStreams, app: String?, send: String) {
        self.streams = streams
        self.app = app
        self.send = send
    }

    /// Does what is wished.
    ///
    /// - Throws: `CommandFailure` when there is no such send, or it is too late.
    package func perform(_ wish: SendControlCommand) async throws -> Report {
        let found = try await self.streams.control.find(app: self.app, send: self.send)
        guard found.count <= 1 else {
            throw SendObserver.ambiguity(of: self.send, apps: found.map(\.ledger.app))
        }
        guard let (keys, ledger) = found.first else { throw try await self.absence() }
        switch try await self.streams.control.apply(wish, to: SendKey(app: ledger.app, id: self.send), at: keys) {
        case .ok(let ledger):
            let status = SendStatus(send: self.send, ledger: ledger)
            return Report(status: status, ratePerSecond: ledger.ratePerSecond)
        case .unknown: throw try await self.absence()
        case .over(.cancelled):
            throw CommandFailure("\(self.send) was cancelled, and that is for good: to reach the rest, send it anew")
        case .over: throw CommandFailure("\(self.send) has ended: every recipient has its outcome")
        }
    }

    /// Why there is nothing to steer.
    private func absence() async throws -> CommandFailure {
        var observer = SendObserver(self.streams, app: self.app, send: self.send)
        switch try await observer.look().phase {
        case .refused(let problem): return CommandFailure("\(self.send) was refused: \(problem)")
        case .done: return CommandFailure("\(self.send) has ended: every recipient has its outcome")
        case .waiting, .planning, .running, .paused, .cancelled:
            return CommandFailure(
                "no dispatcher keeps a send \(self.send): check the id and --app. A send that waits in its mailbox can be "
                    + "steered once it is taken; one to a few devices goes out at once and cannot be steered"
            )
        }
    }
}
