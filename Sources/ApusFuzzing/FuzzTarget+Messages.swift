internal import ApusCore
internal import ApusMessages

/// Packed messages of Redis' streams and of request bodies.
extension FuzzTarget {
    static let messages = [
        Self.message("message-command", SampleMessages.commands),
        Self.message("message-registration", SampleMessages.registrations),
        Self.message("message-registration-command", SampleMessages.registrationCommands),
        Self.message("message-work-unit", SampleMessages.workUnits),
        Self.message("message-outcomes", [SampleMessages.outcomeBatch]),
        Self.message("message-receipt", [SampleMessages.receipt]),
        Self.message("message-event", [SampleMessages.event]),
        Self.message("message-dead-letter", [SampleMessages.deadLetter]),
        FuzzTarget(
            "device-record",
            seeds: Self.packed([SampleMessages.deviceRecord, DeviceRecord(device: "d", token: [0])])
        ) { input in
            try Self.decode(DeviceRecord.self, input)
            let view = DeviceRecordView(input.span)
            let record: DeviceRecord
            do throws(MessageError) {
                record = try DeviceRecord.decode(input)
            } catch {
                // The view does not look into texts, and takes no memory.
                let isUnseen = error.code == .invalidText || error.code == .outOfMemory
                return try require(view == nil || isUnseen, "the view takes what the decoder refuses: \(error)")
            }
            guard let view else { throw FuzzFailure("the view refuses what the decoder takes") }
            try require(view.device(in: input.span) == record.device, "two readers see two devices")
            for topic in record.topics {
                try require(view.hasTopic(topic, in: input.span), "topic \(topic) is not found")
            }
        },
        FuzzTarget("message-head", seeds: Self.packed(SampleMessages.commands)) { input in
            let head = CommandHead(reading: input)
            try require(
                head.id.utf8.count <= Limits.sendIDBytesMax && head.app.utf8.count <= Limits.appIDBytesMax
                    && head.idempotencyKey.utf8.count <= Limits.idempotencyKeyBytesMax
                    && head.replyTo.utf8.count <= Limits.replyToBytesMax,
                "a field is longer than its limit"
            )
            if let command = try? SendCommand.decode(input) {
                try require(head == CommandHead(command), "two readers see two commands")
            }
        },
    ]

    private static func packed(_ samples: [some Message]) -> [[UInt8]] {
        samples.map { sample in
            guard let bytes = try? sample.encode() else { preconditionFailure("a sample breaks a rule: \(sample)") }
            return bytes
        }
    }

    private static func message<M: Message>(_ name: String, _ samples: [M]) -> FuzzTarget {
        FuzzTarget(name, seeds: Self.packed(samples)) { input in try Self.decode(M.self, input) }
    }

    /// Decodes a message within its budget of memory; what is taken comes back from its own bytes.
    private static func decode<M: Message>(_: M.Type, _ input: [UInt8]) throws {
        var arena = MessageArena()
        let value: M
        do throws(MessageError) {
            value = try M.decode(input, in: &arena)
        } catch {
            let budget = MessageArena.budget(forBytes: input.count)
            return try require(arena.used <= budget, "\(arena.used) bytes were taken of \(budget)")
        }
        let again = try M.decode(try value.encode())
        try require(again == value, "changed by encoding")
    }
}

/// Messages with most fields set.
enum SampleMessages {
    static let time = UnixMilliseconds(1_700_000_000_000)

    static var notification: Notification {
        var notification = Notification()
        notification.title = "Title ☃"
        notification.body = "Body 🦅"
        notification.titleLocKey = "TITLE"
        notification.titleLocArgs = ["one", ""]
        notification.image = "https://example.org/i.png"
        notification.sound = Notification.Sound(name: "ping.caf", critical: true, volume: 0.25)
        notification.badge = .increment(2)
        notification.data = ["order": "17", "é": "accent"]
        notification.expiry = .ttl(milliseconds: 60_000)
        notification.collapseKey = "collapse"
        var variant = Notification.LocaleVariant(locale: "pt-BR")
        variant.title = "Olá"
        notification.variants = [variant]
        notification.apnsJSON = #"{"aps":{"x":1}}"#
        notification.androidJSON = #"{"ttl":"1s"}"#
        return notification
    }

    static var commands: [SendCommand] {
        let address = Address(provider: .apns, token: "00fc")
        let targets: [Target] = [
            .addresses([address]), .devices(["d-1", "d-2"]), .users(["u"]), .topic("news"),
            .condition("'a' in topics && !('b' in topics)"), .expression("platform == 'ios'"), .everyone([.apns]),
            .fcmTopic("news"), .apnsChannel(id: "dHN0LXNyY2gtY2hubA==", environment: .sandbox, storesLatest: true),
        ]
        return targets.map { target in
            var command = SendCommand(app: "shop", target: target, notification: Self.notification)
            command.id = "send-1"
            command.idempotencyKey = "key-1"
            command.publishedAtNanoseconds = 1_700_000_000_123_456_789
            command.replyTo = "apus:receipts:shop"
            return command
        }
    }

    static var registration: DeviceRegistration {
        var registration = DeviceRegistration(device: "device-1", provider: .apns, token: "00fc13ad")
        registration.user = "user-1"
        registration.attributes.locale = "en-GB"
        registration.attributes.tags = ["beta"]
        registration.topics = ["news"]
        registration.badge = 3
        return registration
    }

    static var registrations: [DeviceRegistration] { [Self.registration] }

    static var registrationCommands: [RegistrationCommand] {
        let actions: [RegistrationCommand.Action] = [
            .register(Self.registration), .unregister(device: "d"), .subscribe(device: "d", topics: ["news"]),
            .bindUser(device: "d", user: "u"), .setAttributes(device: "d", Self.registration.attributes),
            .setBadge(device: "d", 3), .deleteUser("u"),
        ]
        return actions.map { RegistrationCommand(app: "shop", action: $0) }
    }

    static var workUnits: [WorkUnit] {
        let recipients: [WorkUnit.Recipients] = [
            .segments([Segment(partition: 7, chunk: 3, ordinals: [0, 1, 255, 4_095])]),
            .references([DeviceReference(partition: 1, ordinal: 70_000, generation: 3)]), .addresses([0, 5, 999]),
        ]
        return recipients.map {
            WorkUnit(send: SendKey(app: "shop", id: "send-1"), route: RouteNumber(3), recipients: $0)
        }
    }

    static var outcomeBatch: OutcomeBatch {
        var batch = OutcomeBatch(send: "send-1", app: "shop", route: RouteNumber(3), provider: .apns)
        batch.unit = "1700000000000-0"
        batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 490)]
        batch.unregistered = [
            TokenVerdict(
                place: .device(DeviceReference(partition: 5, ordinal: 6, generation: 7)),
                tokenDigest: 0xfedc_ba98,
                asOf: Self.time,
                reason: .unregistered,
                providerReason: "Unregistered",
            )
        ]
        batch.recipients = [
            RecipientOutcome(place: .address(0), outcome: .rejected, reason: .payload, at: Self.time)
        ]
        (batch.firstAt, batch.lastAt) = (Self.time, Self.time)
        return batch
    }

    static var receipt: SendReceipt {
        var receipt = SendReceipt(id: "receipt-1", send: "send-1", app: "shop", kind: .final)
        receipt.problem = Problem(code: "invalid", field: "notification.title", detail: "must be short")
        receipt.counts = Self.outcomeBatch.counts
        receipt.recipients = Self.outcomeBatch.recipients
        (receipt.firstAt, receipt.lastAt) = (Self.time, Self.time)
        return receipt
    }

    static var event: ClientEvent {
        var event = ClientEvent(id: "e", app: "shop", device: "d", send: "send-1", kind: .action, at: Self.time)
        event.action = "reply"
        return event
    }

    static var deadLetter: DeadLetter {
        DeadLetter(
            stream: "{q3}in:bulk",
            entry: "1700000000000-0",
            cause: .poison,
            problem: Problem(code: "malformed", detail: "is no message"),
            payload: [0, 1, 0xff, 0],
            at: Self.time,
        )
    }

    static var deviceRecord: DeviceRecord {
        var record = DeviceRecord(device: "6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10", token: (0..<32).map { UInt8($0) })
        record.user = "user-1"
        record.topics = [1, 127, 128, 70_000, .max]
        record.attributes.locale = "pt-BR"
        record.attributes.tags = ["vip"]
        record.seenAtHours = 472_222
        record.suspicion = DeviceRecord.Suspicion(since: Self.time, reason: .badToken)
        record.secondary = [DeviceRecord.SecondaryAddress(kind: .voip, token: [0, 1, 2])]
        return record
    }
}
