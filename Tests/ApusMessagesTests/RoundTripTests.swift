import ApusCore
import ApusMessages
import Testing

@Suite("Every message comes back as it went") struct RoundTripTests {
    private func expectRoundTrip<M: Message>(_ message: M) throws {
        let bytes = try message.encode()
        #expect(try M.decode(bytes) == message)
        #expect(try M.decode(bytes).encode() == bytes)
    }

    @Test func sendCommand() throws {
        try self.expectRoundTrip(Samples.sendCommand)
        for target in Samples.targets + [.addresses([Samples.boundAddress])] {
            try self.expectRoundTrip(SendCommand(app: "shop", target: target, notification: Notification()))
        }
    }

    @Test func theContentOfACommandIsItsEncodingWithoutIDTimeAndTrace() throws {
        var command = Samples.sendCommand
        command.id = "one"
        command.publishedAtNanoseconds = 1_234_567_890_123
        command.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        command.tracestate = "a=b"
        var plain = command
        plain.id = ""
        plain.publishedAtNanoseconds = 0
        plain.traceparent = ""
        plain.tracestate = ""
        let content = try SendCommand.content(ofEncoded: command.encode())
        #expect(try content == plain.encode())
        #expect(try SendCommand.content(ofEncoded: plain.encode()) == content)
        // Everything else counts.
        command.replyTo = "apus:receipts:other"
        #expect(try SendCommand.content(ofEncoded: command.encode()) != content)
        #expect(SendCommand.content(ofEncoded: []) == [])
        // Bytes that end in the middle of a field are cut before it.
        #expect(SendCommand.content(ofEncoded: [0x12, 0x01, 0x61, 0x1a, 0x05, 0x01]) == [0x12, 0x01, 0x61])
    }

    @Test func workUnit() throws {
        for recipients in Samples.recipients {
            var unit = Samples.workUnit
            unit.recipients = recipients
            try self.expectRoundTrip(unit)
            unit.homeEnvironment = .sandbox
            unit.waitsForThirdPartyAuth = true
            unit.badgesCounted = true
            try self.expectRoundTrip(unit)
            try self.expectRoundTrip(
                WorkUnit(send: SendKey(app: "a", id: "s"), route: RouteNumber(1), recipients: recipients)
            )
        }
    }

    @Test func outcomeBatch() throws {
        try self.expectRoundTrip(Samples.outcomeBatch)
        try self.expectRoundTrip(OutcomeBatch(send: "s", app: "a", route: RouteNumber(1), provider: .fcm))
    }

    @Test func deviceRecord() throws {
        try self.expectRoundTrip(Samples.deviceRecord)
        try self.expectRoundTrip(DeviceRecord(device: "d", token: [0]))
    }

    @Test func idsThatAreUUIDsTakeSixteenBytesAndComeBackToTheCharacter() throws {
        var generator = FuzzSeed.generator()
        let least = try DeviceRecord(device: String(repeating: "d", count: 36), token: [0]).encode().count
        for iteration in 0..<5_000 {
            let digits = Array(Hexadecimal.encode((0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }))
            var text = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
            if Bool.random(using: &generator) { text = text.uppercased() }
            let packed = try DeviceRecord(device: text, token: [0]).encode()
            #expect(packed.count == least - 20, "seed \(FuzzSeed.value), iteration \(iteration), \(text)")
            try self.expectRoundTrip(DeviceRecord(device: text, token: [0]))
            // One character beside a UUID: text as any other, unless it still is one.
            var almost = Array(text)
            let place = Int.random(in: 0..<36, using: &generator)
            almost[place] = Array("aAgG-09zé").randomElement(using: &generator) ?? "z"
            try self.expectRoundTrip(DeviceRecord(device: String(almost), token: [0]))
        }
        for text in [
            "12345678-1234-1234-1234-123456789012", "6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f1",
            "6f0f2b447a0a4b539a510b7c1c7c2f10",
            "6F0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10", "{6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10}",
            "6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10x", "------------------------------------",
        ] { try self.expectRoundTrip(DeviceRecord(device: text, token: [0])) }
    }

    @Test func deviceRegistration() throws {
        try self.expectRoundTrip(Samples.deviceRegistration)
        var registration = DeviceRegistration(device: "d", provider: .apns, token: "00")
        try self.expectRoundTrip(registration)
        registration.topics = []
        try self.expectRoundTrip(registration)
    }

    @Test func registrationCommand() throws {
        for action in Samples.actions {
            var command = Samples.registrationCommand
            command.action = action
            try self.expectRoundTrip(command)
            try self.expectRoundTrip(RegistrationCommand(app: "shop", action: action))
        }
    }

    @Test func sendReceipt() throws {
        try self.expectRoundTrip(Samples.sendReceipt)
        try self.expectRoundTrip(SendReceipt(id: "r", send: "", app: "", kind: .refused))
        var trial = SendReceipt(id: "r", send: "s", app: "a", kind: .dryRun)
        trial.renderings = [
            SendReceipt.Rendering(
                provider: .apns,
                environment: .sandbox,
                locale: "de",
                payloadBytes: 17,
                payloadBytesMax: 4_096,
            )
        ]
        trial.lints = [Problem(code: "truncated", field: "notification.title", detail: "long")]
        try self.expectRoundTrip(trial)
    }

    @Test func clientEvent() throws {
        try self.expectRoundTrip(Samples.clientEvent)
        var event = Samples.clientEvent
        event.provider = nil
        try self.expectRoundTrip(event)
    }

    @Test func deadLetter() throws {
        try self.expectRoundTrip(Samples.deadLetter)
        var letter = Samples.deadLetter
        letter.payload = []
        letter.problem = Problem(code: "malformed", detail: "")
        try self.expectRoundTrip(letter)
    }

    @Test func everyWordOfEverySet() throws {
        for provider in Provider.allCases {
            for outcome in Outcome.allCases {
                for reason in Reason.allCases {
                    var batch = OutcomeBatch(send: "s", app: "a", route: RouteNumber(1), provider: provider)
                    batch.counts = [OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: 0)]
                    try self.expectRoundTrip(batch)
                }
            }
        }
        for kind in TokenKind.allCases {
            for environment in ProviderEnvironment.allCases {
                var record = DeviceRecord(device: "d", token: [0])
                record.tokenKind = kind
                record.environment = environment
                record.secondary = [DeviceRecord.SecondaryAddress(kind: kind, token: [1])]
                try self.expectRoundTrip(record)
            }
        }
        for kind in Notification.Kind.allCases {
            for level in Notification.InterruptionLevel.allCases {
                var command = SendCommand(app: "a", target: .topic("t"), notification: Notification())
                command.notification.kind = kind
                command.notification.interruptionLevel = level
                command.notification.badge = .set(0)
                command.notification.expiry = .at(UnixMilliseconds(0))
                try self.expectRoundTrip(command)
            }
        }
        for event in Notification.LiveActivity.Event.allCases {
            for priority in Notification.Priority.allCases {
                var command = SendCommand(app: "a", target: .topic("t"), notification: Notification())
                command.notification.liveActivity = Notification.LiveActivity(event: event)
                command.notification.priority = priority
                command.notification.sound = Notification.Sound(name: "", volume: 0)
                try self.expectRoundTrip(command)
            }
        }
        for level in SendCommand.ReceiptLevel.allCases {
            for delivery in SendCommand.Delivery.allCases {
                var command = SendCommand(app: "a", target: .topic("t"), notification: Notification())
                command.receiptLevel = level
                command.delivery = delivery
                try self.expectRoundTrip(command)
            }
        }
        for kind in SendReceipt.Kind.allCases {
            try self.expectRoundTrip(SendReceipt(id: "r", send: "", app: "", kind: kind))
        }
        for kind in ClientEvent.Kind.allCases {
            var event = Samples.clientEvent
            event.kind = kind
            try self.expectRoundTrip(event)
        }
        for cause in DeadLetter.Cause.allCases {
            var letter = Samples.deadLetter
            letter.cause = cause
            try self.expectRoundTrip(letter)
        }
        for lane in Lane.allCases {
            var unit = Samples.workUnit
            unit.lane = lane
            try self.expectRoundTrip(unit)
        }
    }

    @Test func oneArenaServesMessagesOfAnySizeInTurn() throws {
        var arena = MessageArena()
        var letter = Samples.deadLetter
        for size in [0, Limits.deadLetterPayloadBytesMax, 10, 100_000, 0] {
            letter.payload = Array(repeating: 7, count: size)
            let letterBytes = try letter.encode(in: &arena)
            let letterAgain = try DeadLetter.decode(letterBytes, in: &arena)
            #expect(letterAgain == letter)
            let unitBytes = try Samples.workUnit.encode(in: &arena)
            let unitAgain = try WorkUnit.decode(unitBytes, in: &arena)
            #expect(unitAgain == Samples.workUnit)
        }
    }

    @Test func bytesMayComeInAnyForm() throws {
        let bytes = try Samples.workUnit.encode()
        #expect(try WorkUnit.decode(bytes) == Samples.workUnit)
        let ofSpan = try WorkUnit.decode(bytes.span)
        #expect(ofSpan == Samples.workUnit)
        let ofMemory = try bytes.withUnsafeBytes { memory in try WorkUnit.decode(memory) }
        #expect(ofMemory == Samples.workUnit)
        let error = #expect(throws: MessageError.self) {
            try SendCommand.decode(UnsafeRawBufferPointer(start: nil, count: 0))
        }
        #expect(error?.description == "target must be given")
    }

    @Test func equalValuesHaveEqualBytesWhateverTheOrderOfTheirMaps() throws {
        var one = Samples.sendCommand
        var other = Samples.sendCommand
        one.notification.data = [:]
        other.notification.data = [:]
        for number in 0..<64 { one.notification.data["key-\(number)"] = "\(number)" }
        for number in (0..<64).reversed() { other.notification.data["key-\(number)"] = "\(number)" }
        #expect(try one.encode() == other.encode())
    }

    @Test func `A provider that this process does not know is carried by its code`() throws {
        let unknown = Provider(rawValue: 200)
        var batch = OutcomeBatch(send: "s", app: "a", route: RouteNumber(1), provider: unknown)
        batch.counts = [OutcomeCount(provider: unknown, outcome: .accepted, reason: .none, count: 1)]
        #expect(try OutcomeBatch.decode(try batch.encode()) == batch)
        #expect(unknown.name == "provider-200" && Provider(name: unknown.name) == unknown)
        #expect(Provider(name: "provider-0") == nil && Provider(name: "provider-256") == nil)
    }
}
