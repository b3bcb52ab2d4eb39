import ApusCore
import ApusMessages
import Testing

@Suite struct SizeTests {
    /// A message padded to a size by a field of a later version.
    private static func padded(_ least: [UInt8], to count: Int) -> [UInt8] {
        let head = least + Wire.tag(2_000, 2)
        var length = count - head.count - 1
        while head.count + Wire.varint(UInt64(length)).count + length > count { length -= 1 }
        return head + Wire.varint(UInt64(length)) + Array(repeating: 0x61, count: length)
    }

    private func expectLimit<M: Message>(_ type: M.Type, _ least: [UInt8], _ bytesMax: Int) throws {
        let atLimit = Self.padded(least, to: bytesMax)
        #expect(atLimit.count == bytesMax)
        #expect(try M.decode(atLimit) == M.decode(least))
        let error = #expect(throws: MessageError.self) { try M.decode(Self.padded(least, to: bytesMax + 1)) }
        #expect(error?.code == .tooLarge)
    }

    @Test func eachMessageHasItsSize() throws {
        try self.expectLimit(SendCommand.self, Least.command, Limits.sendCommandBytesMax)
        try self.expectLimit(WorkUnit.self, Least.unit, Limits.messageBytesMax)
        try self.expectLimit(OutcomeBatch.self, Least.batch, Limits.outcomeBatchBytesMax)
        try self.expectLimit(SendReceipt.self, Least.receipt, Limits.outcomeBatchBytesMax)
        try self.expectLimit(DeviceRecord.self, Least.record, Limits.deviceRecordBytesMax)
        try self.expectLimit(DeviceRegistration.self, Least.device, Limits.messageBytesMax)
        try self.expectLimit(
            RegistrationCommand.self,
            Least.app + Wire.nested([4], Least.device),
            Limits.messageBytesMax,
        )
        try self.expectLimit(ClientEvent.self, Least.event, Limits.messageBytesMax)
        try self.expectLimit(DeadLetter.self, Least.letter, Limits.deadLetterBytesMax)
    }

    @Test func whatWouldBeTooLargeIsNotEncoded() {
        var batch = Samples.outcomeBatch
        var outcome = Samples.recipientOutcome
        outcome.providerReason = String(repeating: "r", count: Limits.providerTextBytesMax)
        outcome.providerID = String(repeating: "i", count: Limits.nameBytesMax)
        batch.recipients = Array(repeating: outcome, count: Limits.unitRecipientsMax)
        batch.suspects = Array(repeating: Samples.verdict, count: Limits.unitRecipientsMax)
        #expect(throws: MessageError(.tooLarge, "must have at most 262144 bytes")) { try batch.encode() }
    }

    @Test func aFullBatchOfOrdinaryOutcomesFits() throws {
        var batch = Samples.outcomeBatch
        var outcome = Samples.recipientOutcome
        outcome.providerID = "projects/some-project-id/messages/0:1500415314455276%31bd1c9631bd1c96"
        batch.recipients = Array(repeating: outcome, count: Limits.unitRecipientsMax)
        batch.unregistered = Array(repeating: Samples.verdict, count: Limits.unitRecipientsMax)
        #expect(try OutcomeBatch.decode(batch.encode()) == batch)
    }

    @Test func theProvidersTextsAreLeftOutOfABatchThatWouldBeTooLarge() throws {
        var batch = Samples.outcomeBatch
        batch.leaveOutTextsBeyondLimit()
        #expect(batch == Samples.outcomeBatch)
        var outcome = Samples.recipientOutcome
        outcome.device = String(repeating: "d", count: Limits.deviceIDBytesMax)
        outcome.providerReason = String(repeating: "r", count: Limits.providerTextBytesMax)
        outcome.providerID = String(repeating: "i", count: Limits.providerIDBytesMax)
        batch.recipients = Array(repeating: outcome, count: Limits.unitRecipientsMax)
        #expect(throws: MessageError.self) { try batch.encode() }
        batch.leaveOutTextsBeyondLimit()
        outcome.providerID = ""
        #expect(batch.recipients == Array(repeating: outcome, count: Limits.unitRecipientsMax))
        #expect(batch.suspects == Samples.outcomeBatch.suspects)
        #expect(try OutcomeBatch.decode(batch.encode()) == batch)

        var verdict = Samples.verdict
        verdict.providerReason = outcome.providerReason
        batch.suspects = Array(repeating: verdict, count: Limits.unitRecipientsMax)
        #expect(throws: MessageError.self) { try batch.encode() }
        batch.leaveOutTextsBeyondLimit()
        #expect(batch.suspects.allSatisfy { $0.providerReason.isEmpty })
        #expect(batch.recipients.first == outcome)
        #expect(try OutcomeBatch.decode(batch.encode()) == batch)
        var receipt = SendReceipt(
            id: String(repeating: "i", count: Limits.nameBytesMax),
            send: batch.send,
            app: batch.app,
            kind: .recipients
        )
        receipt.recipients = batch.recipients
        receipt.carry(batch)
        #expect(try SendReceipt.decode(receipt.encode()) == receipt)

        (batch.unregistered, batch.refusals) = (batch.suspects, batch.suspects)
        batch.leaveOutTextsBeyondLimit()
        #expect(batch.recipients.allSatisfy { $0.providerReason.isEmpty && $0.device == outcome.device })
        _ = try batch.encode()
    }

    @Test func theLongestTimeToLiveEndsAtATimeThatAUnitMayName() throws {
        var command = Samples.sendCommand
        command.notification.expiry = .ttl(milliseconds: Limits.timeMax.value)
        var unit = Samples.workUnit
        unit.expiresAt = command.deadline(now: UnixMilliseconds(1_750_000_000_000))
        #expect(unit.expiresAt == Limits.timeMax)
        #expect(try WorkUnit.decode(unit.encode()) == unit)
    }

    @Test func theLargestSendFits() throws {
        var command = Samples.sendCommand
        var address = Address(provider: .fcm, token: String(repeating: "t", count: 180))
        address.locale = "pt-BR"
        command.target = .addresses(Array(repeating: address, count: Limits.recipientsMax))
        #expect(try SendCommand.decode(command.encode()) == command)
    }

    @Test func limitsHoldWhenEncodingToo() {
        var command = Samples.sendCommand
        command.notification.variants[1].body = String(repeating: "b", count: Limits.textBytesMax + 1)
        Self.expect(.limitExceeded, "notification.variants[1].body") { try command.encode() }
        command = Samples.sendCommand
        command.target = .users(Array(repeating: "u", count: Limits.recipientsMax + 1))
        Self.expect(.limitExceeded, "target.users.ids") { try command.encode() }
        command.target = .devices([])
        Self.expect(.missing, "target.devices") { try command.encode() }
        command = Samples.sendCommand
        command.notification.relevanceScore = .nan
        Self.expect(.malformed, "notification.relevance_score") { try command.encode() }
        command = Samples.sendCommand
        command.notBefore = UnixMilliseconds(0)
        Self.expect(.malformed, "not_before_ms") { try command.encode() }
        var record = Samples.deviceRecord
        record.topics = [2, 1]
        Self.expect(.malformed, "topics") { try record.encode() }
        record = Samples.deviceRecord
        record.webpushAuth = [1]
        Self.expect(.malformed, "webpush_auth") { try record.encode() }
        var unit = Samples.workUnit
        unit.recipients = .addresses(Array(repeating: 0, count: Limits.unitRecipientsMax + 1))
        Self.expect(.limitExceeded, "addresses") { try unit.encode() }
        var batch = Samples.outcomeBatch
        batch.suspects[0].place = .address(.max)
        Self.expect(.limitExceeded, "suspects[0].place.address") { try batch.encode() }
    }

    private static func expect(
        _ code: MessageError.Code,
        _ field: String,
        _ body: () throws -> [UInt8],
    ) {
        let error = #expect(throws: MessageError.self) { try body() }
        #expect(error?.code == code)
        #expect(error?.field == field)
    }
}

@Suite("Bombs cost no more memory than their bytes justify") struct BombTests {
    private func expectRefused<M: Message>(
        _ type: M.Type,
        _ bytes: [UInt8],
        _ code: MessageError.Code,
    ) {
        var arena = MessageArena()
        var refusal: MessageError?
        do throws(MessageError) { _ = try M.decode(bytes, in: &arena) } catch { refusal = error }
        #expect(refusal?.code == code)
        let used = arena.used
        #expect(used <= MessageArena.budget(forBytes: bytes.count))
    }

    @Test func emptyMessages() {
        self.expectRefused(OutcomeBatch.self, Least.batch + Wire.repeating(Wire.bytes(8, []), 32_000), .limitExceeded)
        self.expectRefused(OutcomeBatch.self, Least.batch + Wire.repeating(Wire.bytes(8, []), 16_000), .outOfMemory)
        self.expectRefused(OutcomeBatch.self, Least.batch + Wire.repeating(Wire.bytes(9, []), 5_000), .outOfMemory)
    }

    @Test func emptyEntriesOfAMap() {
        let entries = Wire.bytes(4, Wire.repeating(Wire.tag(22, 2) + [0], 16_000))
        self.expectRefused(SendCommand.self, Least.app + Least.topic + entries, .outOfMemory)
    }

    @Test func emptyTexts() {
        let texts = Wire.nested([3, 2], Wire.repeating(Wire.bytes(1, []), 16_000))
        self.expectRefused(SendCommand.self, Least.app + texts + Wire.bytes(4, []), .outOfMemory)
    }

    @Test func packedNumbers() {
        let numbers = Wire.nested([10, 1], Array(repeating: 1, count: 65_000))
        self.expectRefused(WorkUnit.self, Least.unitHead + Wire.number(4, 65_000) + numbers, .limitExceeded)
    }

    @Test func unknownFields() throws {
        let unknown = Wire.number(15, 1)
        let atLimit = Limits.messageUnknownFieldsMax
        let long = Wire.text(99, String(repeating: "x", count: 30))
        #expect(
            try ClientEvent.decode(Least.event + Wire.repeating(long, atLimit)) == ClientEvent.decode(Least.event)
        )
        for bytes in [
            Least.event + Wire.repeating(unknown, atLimit + 1), Least.event + Wire.repeating(unknown, 32_000),
            Least.event + Wire.repeating(Wire.bytes(99, []), atLimit + 1),
            Least.event + Wire.repeating(Wire.fixed64(99, 0), 6_000),
        ] { self.expectRefused(ClientEvent.self, bytes, .limitExceeded) }
    }

    @Test func unknownFieldsSpreadOverMessagesWithin() {
        let address = Wire.nested([1], Wire.number(1, 1) + Wire.text(2, "00") + Wire.repeating(Wire.number(15, 1), 2))
        let addresses = Wire.nested([3, 1], Wire.repeating(address, Limits.messageUnknownFieldsMax / 2 + 1))
        self.expectRefused(SendCommand.self, Least.app + addresses + Wire.bytes(4, []), .limitExceeded)
    }

    @Test func fieldsAtTheLimitAndOnePastIt() {
        // The least batch has four fields.
        let atLimit = Least.batch + Wire.repeating(Wire.bytes(8, []), Limits.messageFieldsMax - 4)
        self.expectRefused(OutcomeBatch.self, atLimit, .outOfMemory)
        self.expectRefused(OutcomeBatch.self, atLimit + Wire.bytes(8, []), .limitExceeded)
    }

    @Test func messagesWithinMessagesThatTheSchemaDoesNotKnow() throws {
        // Unknown fields are skipped, not entered: whatever nests in them costs no stack.
        var nest: [UInt8] = []
        for _ in 0..<2_000 { nest = Wire.bytes(99, nest) }
        #expect(try ClientEvent.decode(Least.event + nest) == ClientEvent.decode(Least.event))
    }

    @Test func theBudgetIsSixteenTimesTheBytesAndHasAnEnd() {
        #expect(MessageArena.budget(forBytes: 0) == 65_536)
        #expect(MessageArena.budget(forBytes: 1_000) == 81_536)
        #expect(MessageArena.budget(forBytes: Limits.sendCommandBytesMax) == Limits.messageArenaBytesMax)
        #expect(MessageArena.budget(forBytes: Limits.deadLetterBytesMax) == Limits.messageArenaBytesMax)
    }
}

@Suite struct SchemaTests {
    @Test func noTypeHoldsItselfAndNoneNestsDeeperThanFour() {
        let depths = MessageSchemas.depths()
        #expect(
            depths == [
                "apus.v1.SendCommand": 4, "apus.v1.WorkUnit": 3, "apus.v1.OutcomeBatch": 3, "apus.v1.SendReceipt": 3,
                "apus.v1.DeviceRecord": 2, "apus.v1.DeviceRegistration": 2, "apus.v1.RegistrationCommand": 3,
                "apus.v1.ClientEvent": 1, "apus.v1.DeadLetter": 1,
            ]
        )
        #expect(depths.values.allSatisfy { ($0 ?? .max) <= Limits.messageDepthMax })
    }
}
