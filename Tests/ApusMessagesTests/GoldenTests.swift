import ApusCore
import ApusMessages
import Testing

@Suite("What another protobuf writes is what we write") struct GoldenTests {
    private func expect<M: Message>(_ sample: M, is golden: String) throws {
        let bytes = try #require(Base64URL.decode(golden))
        #expect(try M.decode(bytes) == sample)
        #expect(try sample.encode() == bytes)
    }

    @Test func everyFieldOfEveryMessage() throws {
        try self.expect(Samples.sendCommand, is: Golden.sendCommand)
        try self.expect(Samples.outcomeBatch, is: Golden.outcomeBatch)
        try self.expect(Samples.deviceRecord, is: Golden.deviceRecord)
        try self.expect(Samples.deviceRegistration, is: Golden.deviceRegistration)
        try self.expect(Samples.sendReceipt, is: Golden.sendReceipt)
        try self.expect(Samples.clientEvent, is: Golden.clientEvent)
        try self.expect(Samples.deadLetter, is: Golden.deadLetter)
    }

    @Test func everyKindOfRecipients() throws {
        #expect(Golden.workUnits.count == Samples.recipients.count)
        for (recipients, golden) in zip(Samples.recipients, Golden.workUnits) {
            var unit = Samples.workUnit
            unit.recipients = recipients
            try self.expect(unit, is: golden)
        }
    }

    @Test func everyAction() throws {
        #expect(Golden.actions.count == Samples.actions.count)
        for (action, golden) in zip(Samples.actions, Golden.actions) {
            var command = Samples.registrationCommand
            command.action = action
            try self.expect(command, is: golden)
        }
    }

    @Test func everyAudience() throws {
        let targets = Samples.targets.dropFirst()
        #expect(Golden.targets.count == targets.count)
        for (target, golden) in zip(targets, Golden.targets) {
            try self.expect(SendCommand(app: "shop", target: target, notification: Notification()), is: golden)
        }
    }
}
