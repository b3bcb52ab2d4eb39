import ApusCore
import ApusMessages

extension Samples {
    /// One of each action.
    static var actions: [RegistrationCommand.Action] {
        [
            .register(Self.deviceRegistration),
            .unregister(device: "device-1"),
            .subscribe(device: "device-1", topics: ["news"]),
            .unsubscribe(device: "device-1", topics: ["news", "sport"]),
            .bindUser(device: "device-1", user: "user-1"),
            .unbindUser(device: "device-1"),
            .setAttributes(device: "device-1", Self.attributes),
            .setAttributes(device: "device-1", Attributes()),
            .setBadge(device: "device-1", 3),
            .deleteUser("user-1"),
        ]
    }

    static var registrationCommand: RegistrationCommand {
        var command = RegistrationCommand(app: "shop", action: Self.actions[0])
        command.id = "registration-1"
        command.asOf = UnixMilliseconds(1_700_000_000_000)
        command.replyTo = "apus:receipts:shop"
        command.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        return command
    }

    static var problem: Problem {
        Problem(code: "malformed", field: "notification.data[3].value", detail: "must be UTF-8")
    }

    static var sendReceipt: SendReceipt {
        var receipt = SendReceipt(id: "receipt-1", send: "send-1", app: "shop", kind: .final)
        receipt.problem = Self.problem
        receipt.planned = 500
        receipt.counts = Self.counts
        receipt.recipients = [Self.recipientOutcome]
        receipt.publishedAtNanoseconds = 1_700_000_000_123_456_789
        receipt.firstAt = UnixMilliseconds(1_700_000_000_600)
        receipt.lastAt = UnixMilliseconds(1_700_000_000_900)
        receipt.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        receipt.tracestate = "rojo=00f067aa0ba902b7"
        receipt.idempotencyKey = "key-1"
        receipt.duplicateOf = "send-0"
        return receipt
    }

    static var clientEvent: ClientEvent {
        var event = ClientEvent(
            id: "event-1",
            app: "shop",
            device: "device-1",
            send: "send-1",
            kind: .action,
            at: UnixMilliseconds(1_700_000_001_000),
        )
        event.action = "reply"
        event.provider = .fcm
        return event
    }

    static var deadLetter: DeadLetter {
        var letter = DeadLetter(
            stream: "{q3}in:bulk",
            entry: "1700000000000-0",
            cause: .poison,
            problem: Self.problem,
            payload: [0, 1, 0xff, 0],
            at: UnixMilliseconds(1_700_000_002_000),
        )
        letter.deliveries = 5
        letter.service = "apus-dispatcher"
        letter.app = "shop"
        letter.send = "send-1"
        return letter
    }
}
