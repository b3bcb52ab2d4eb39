package import ApusCore
internal import ApusMessages
package import ApusStreams

/// Says what a replay of a dead letter would do, for `apus dead show`. It is pure.
package enum ReplayPreview {
    /// Returns the sentence.
    ///
    /// - Parameter state: the state of the send that the message is a part of, as its ledger has it; nil when the ledger is gone.
    package static func sentence(_ stored: StoredDeadLetter, send state: SendLedger.State?) -> String {
        guard !stored.isUnreadable else {
            return "nothing: this version cannot read the letter; replay it with the version that wrote it"
        }
        guard !stored.isTruncated else {
            return "nothing: only its first \(Limits.deadLetterPayloadBytesMax) bytes were kept; publish it again"
        }
        switch stored.message {
        case .command(let command):
            let key = command.idempotencyKey.isEmpty ? "" : "; its idempotency key is forgotten first"
            return "publishes the command to \(Self.audience(command.target)) as if it were new\(key)"
        case .unit(let unit):
            guard state == .running || state == .paused else { return Self.over(unit.send, state) }
            return "sends to its \(unit.recipients.count) recipients, which have counted as failed until now"
        case .plan(let send):
            let goesOn = "goes on with the search for recipients of the send \(send.id) where it ended"
            switch state {
            case .running?, .paused?: return goesOn
            case .done?: return "opens the send again, if nothing but such searches is missing, and \(goesOn)"
            case .cancelled?, nil: return Self.over(send, state)
            }
        case .outcomes(let batch):
            return "applies \(batch.counts.reduce(0) { $0 + $1.count }) outcomes of the send \(batch.send)"
        case .registration: return "carries out the command to registration"
        case .event: return "counts the event, unless it was counted"
        case .receipt:
            return "writes it into the shard's receipts again; feedback.webhook, where configured, gets it once more"
        case .unreadable: return "writes the same bytes, which become a dead letter again: nobody can read them"
        }
    }

    /// Returns the send that a message is a part of; nil when it is no part of one.
    package static func send(of stored: StoredDeadLetter) -> SendKey? {
        switch stored.message {
        case .unit(let unit): unit.send
        case .plan(let send): send
        case .command, .outcomes, .registration, .event, .receipt, .unreadable: nil
        }
    }

    private static func over(_ send: SendKey, _ state: SendLedger.State?) -> String {
        let word = state?.rawValue ?? "forgotten"
        return
            "nothing: the send \(send.id) is \(word), and only parts of a running send can be replayed; publish a new send"
    }

    private static func audience(_ target: Target) -> String {
        func count(_ number: Int, _ word: String) -> String { number == 1 ? "1 \(word)" : "\(number) \(word)s" }
        return switch target {
        case .addresses(let addresses): count(addresses.count, "token")
        case .devices(let ids): count(ids.count, "device")
        case .users(let ids): count(ids.count, "user")
        case .topic(let name): "the topic \(name)"
        case .condition(let text), .expression(let text): "whom \(text) selects"
        case .everyone: "everyone"
        case .fcmTopic(let name): "FCM's topic \(name)"
        case .fcmCondition(let text): "whom FCM's condition \(text) selects"
        case .fcmGroup: "a device group of FCM"
        case .apnsChannel(let id, _, _): "the channel \(id)"
        }
    }
}
