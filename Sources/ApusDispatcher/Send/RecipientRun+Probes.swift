internal import ApusCore
internal import ApusMessages

/// Tests tokens when the provider rejects a request as invalid without saying whether the token or the message is
/// meant.
///
/// The token is tried with a minimal message that the provider only checks. It is suspect if it is called invalid again
/// while a control, a token that accepted the send, passes the same check. In any other case it is kept, because only
/// an answer to a payload that is certainly valid proves that a token is bad.
struct RecipientProbes: Sendable {
    /// The maximum number of tokens that one run tests. If more are called invalid, the message is at fault.
    static let begunMax = 8

    /// The state of the control: a token that accepted the send.
    enum Control: Equatable, Sendable {
        /// It has not been tested.
        case untried
        /// This recipient's token is being tested.
        case asked(Int)
        /// It passed, so the check is sound.
        case passed
        /// It failed, or there was no answer: the check proves nothing.
        case failed
    }

    /// The recipients whose tokens are being tested, with their first answers.
    var open: [Int: RecipientRun.Detail] = [:]
    /// The recipients whose tokens were called invalid again, and that wait for the control.
    var invalid: [(index: Int, said: RecipientRun.Detail)] = []
    var control = Control.untried
    /// The number of tests begun.
    var begun = 0
    /// The number of tests that wait for their turn or are in flight, including the control's.
    var underWay = 0
    /// A recipient that accepted the send.
    var acceptedRecipient: Int?

    /// Returns true when the recipient's next request, or the one in flight, is a probe.
    @inline(__always)
    func isProbe(_ index: Int) -> Bool {
        self.underWay > 0 && (self.open[index] != nil || self.control == .asked(index))
    }
}

extension RecipientRun {
    /// Returns true when an acceptance of the recipient's request says nothing but that: it was no probe, its body named no recipients, and nothing was
    /// against the token.
    /// A method of the run, because reading several members of a run in place copies it.
    @inline(__always)
    func isOrdinary(_ index: Int) -> Bool {
        !self.terms.listsRecipients && !self.terms.isOtherEnvironment && !self.probes.isProbe(index)
            && !self.table.rows[index].wasRefused
    }

    /// Begins to test a token. Returns false if it is not tested, so that the answer stands.
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

    /// Handles the provider's answer to a probe.
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
            self.finishProbes(outcome == .accepted ? .passed : .failed, now: now)
            return .sendAgain
        }
        switch outcome {
        case .unregistered(let reason, let asOf):
            self.noteUnregistered(index, reason, asOf: asOf, said, now: now)
            return .settled
        case .suspect: break
        case .rejected where said.wantsTokenProbe: break
        // The token is good, or the answer says nothing about it.
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

    private mutating func finishProbes(_ control: RecipientProbes.Control, now: UnixMilliseconds) {
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

    /// Abandons the probes that are not in flight. Their recipients keep the first answer.
    mutating func abandonProbes(now: UnixMilliseconds) {
        guard self.probes.underWay > 0 else { return }
        let waiting = self.again.map { Int($0) }.filter { self.probes.isProbe($0) }
        self.again.removeAll { self.probes.isProbe(Int($0)) }
        self.probes.underWay -= waiting.count
        for index in waiting {
            if let first = self.probes.open.removeValue(forKey: index) {
                self.close(index, .rejected, .other, now: now, detail: first)
            } else {
                self.finishProbes(.failed, now: now)
            }
        }
    }
}
