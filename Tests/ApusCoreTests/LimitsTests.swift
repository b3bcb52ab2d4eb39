import ApusCore
import Testing

/// Limits that must stand in a relation to each other, whoever changes one.
@Suite struct LimitsTests {
    @Test func partsFitIntoWhatHoldsThem() {
        #expect(Limits.tokenBytesMax < Limits.deviceRecordBytesMax)
        #expect(Limits.apnsTokenBytesMax < Limits.tokenBytesMax)
        #expect(Limits.deviceRecordBytesMax < Limits.messageBytesMax)
        #expect(Limits.deadLetterPayloadBytesMax >= Limits.sendCommandBytesMax)
        #expect(Limits.deadLetterPayloadBytesMax >= Limits.outcomeBatchBytesMax)
        #expect(Limits.deadLetterBytesMax > Limits.deadLetterPayloadBytesMax + 2 * Limits.textBytesMax)
        #expect(Limits.directRecipientsMax < Limits.unitRecipientsMax)
        #expect(Limits.unitRecipientsMax <= Limits.recipientsMax)
        #expect(Limits.topicTextBytesMax == Limits.topicNameBytesMax + "/topics/".utf8.count)
    }

    @Test func aFullUnitOrBatchHasRoom() {
        // Of references: partition 3 bytes, ordinal and generation 5 each at most.
        #expect(Limits.unitRecipientsMax * 13 < Limits.messageBytesMax)
        // An outcome: 110 bytes as a rule.
        #expect(Limits.unitRecipientsMax * 256 < Limits.outcomeBatchBytesMax)
        // The longest one without the provider's id of it.
        #expect(
            Limits.unitRecipientsMax * (Limits.deviceIDBytesMax + Limits.providerTextBytesMax + 64)
                < Limits.outcomeBatchBytesMax
        )
        // A thousand FCM tokens with locale and words about them.
        #expect(Limits.recipientsMax * 220 < Limits.sendCommandBytesMax)
        // Every address with each of its fields.
        #expect(Limits.recipientsMax * 8 < Limits.messageFieldsMax)
    }

    @Test func aCountForEveryCombinationFits() {
        let combinations = Provider.allCases.count * Outcome.allCases.count * Reason.allCases.count
        #expect(combinations <= Limits.outcomeCountsMax)
    }
}
