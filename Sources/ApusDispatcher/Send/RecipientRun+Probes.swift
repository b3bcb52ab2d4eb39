internal import ApusCore
internal import ApusMessages

/// Tests tokens that a provider calls invalid perhaps, when it does not say whether it means the message or the token.
///
/// The token is tried with a minimal message that the provider only checks. Called invalid again, while a token that took the send passes
/// the same check, it is suspect; in any other case it is kept: a token is given up only by whoever is certain that the payload is valid.
struct RecipientProbes: Sendable {
    /// Tokens that one run looks into: if more are called invalid, it is the message.
    static let begunMax = 8

    /// What is known of a token that took the send.
    enum Control: Equatable, Sendable {
        /// Nobody has asked yet.
        case untried
        /// This recipient's token is being tried.
        case asked(Int)
        /// It passes: the check is sound.
        case passed
        /// It does not, or there was no answer: the check proves nothing.
        case failed
    }

    /// Recipients whose tokens are being tried, with what was said of them first.
    var open: [Int: RecipientRun.Detail] = [:]
    /// Those who were called invalid again, and wait for the control.
    var invalid: [(index: Int, said: RecipientRun.Detail)] = []
    var control = Control.untried
    /// How many were begun.
    var begun = 0
    /// How many wait for their turn or are on the wire, the control included.
    var underWay = 0
    /// A recipient that took the send.
    var acceptedRecipient: Int?

    /// Whether what is sent to a recipient next, or was sent to it last, is a probe.
    @inline(__always)
    func isProbe(_ index: Int) -> Bool {
        self.underWay > 0 && (self.open[index] != nil || self.control == .asked(index))
    }
}

extension RecipientRun {
    /// Lets a token be tried; false: the answer stands as it is.
    mutating func beginProbe(_ index: Int, _ said: Detail) -> Bool {
        guard self.terms.canProbe, said.wantsTokenProbe, self.isSending, self.isDevice(index),
            self.probes.begun < RecipientProbes.begunMax
        else { return false }
        self.probes.begun += 1
        self.probes.open[index] = said
        self.send(probe: index)
        return true
    }

    private mutating func send(probe index: Int) {
        self.probes.underWay += 1
        self.again.append(UInt32(index))
    }

    /// What the provider says of a token that was tried.
    mutating func probeAnswered(
        _ index: Int,
        _ outcome: DeliveryOutcome,
        _ said: Detail,
        now: UnixMilliseconds,
    ) -> Consequence {
        precondition(self.inFlight > 0 && self.probes.underWay > 0, "an answer to a probe that is not on the wire")
        self.inFlight -= 1
        self.probes.underWay -= 1
        guard let first = self.probes.open.removeValue(forKey: index) else {
            self.concludeProbes(outcome == .accepted ? .passed : .failed, now: now)
            return .sendAgain
        }
        switch outcome {
        case .unregistered(let reason, let asOf):
            self.noteUnregistered(index, reason, asOf: asOf, said, now: now)
            return .settled
        case .suspect: break
        case .rejected where said.wantsTokenProbe: break
        // The token is good, or nothing is said of it.
        case .accepted, .rejected, .deferred, .misconfigured, .lost:
            self.close(index, .rejected, .other, now: now, detail: first)
            return .settled
        }
        switch (self.probes.control, self.probes.acceptedRecipient) {
        case (.passed, _): self.suspect(index, first, now: now)
        case (.asked, _):
            self.probes.invalid.append((index, first))
            return .sendAgain
        case (.untried, let accepted?) where self.isSending:
            self.probes.invalid.append((index, first))
            self.probes.control = .asked(accepted)
            self.send(probe: accepted)
            return .sendAgain
        case (.untried, _), (.failed, _): self.close(index, .rejected, .other, now: now, detail: first)
        }
        return .settled
    }

    private mutating func concludeProbes(_ control: RecipientProbes.Control, now: UnixMilliseconds) {
        self.probes.control = control
        let waiting = self.probes.invalid
        self.probes.invalid = []
        for (index, first) in waiting {
            if control == .passed {
                self.suspect(index, first, now: now)
            } else {
                self.close(index, .rejected, .other, now: now, detail: first)
            }
        }
    }

    private mutating func suspect(_ index: Int, _ said: Detail, now: UnixMilliseconds) {
        self.report.suspects.append(self.verdict(index, .badToken, asOf: said.startedAt, said))
        self.close(index, .rejected, .badToken, now: now, detail: said)
    }

    /// Gives up on probes that are not on the wire: their recipients keep the first answer.
    mutating func abandonProbes(now: UnixMilliseconds) {
        guard self.probes.underWay > 0 else { return }
        let waiting = self.again.map { Int($0) }.filter { self.probes.isProbe($0) }
        self.again.removeAll { self.probes.isProbe(Int($0)) }
        self.probes.underWay -= waiting.count
        for index in waiting {
            if let first = self.probes.open.removeValue(forKey: index) {
                self.close(index, .rejected, .other, now: now, detail: first)
            } else {
                self.concludeProbes(.failed, now: now)
            }
        }
    }
}
