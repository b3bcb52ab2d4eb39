import ApusStreams
import Testing

@Suite struct StreamLimitsTests {
    @Test(arguments: [
        ("UNITS_WAITING_MAX", StreamLimits.unitsWaitingMax), ("UNITS_PACED_MAX", StreamLimits.pacedUnitsWaitingMax),
        ("UNITS_MAX", StreamLimits.unitsMax), ("DEAD_LETTERS_MAX", StreamLimits.deadLettersMax),
        ("DEAD_LETTERS_BYTES_MAX", StreamLimits.deadLettersBytesMax),
        ("DEAD_LETTERS_KEPT_MS", StreamLimits.deadLettersKeptMilliseconds),
        ("CLAIM_ENTRIES_MAX", StreamLimits.claimEntriesMax), ("DELIVERIES_MAX", Int(StreamLimits.deliveriesMax)),
        ("QUARANTINED_TOKENS_MAX", StreamLimits.quarantinedTokensMax),
        ("SWEEP_ENTRIES_MAX", StreamLimits.sweepEntriesMax),
        ("SWEEP_OUTCOMES_MAX", StreamLimits.sweepOutcomesMax), ("SWEEP_DUE_MAX", StreamLimits.sweepDueMax),
        ("ENTRY_BYTES_MAX", StreamLimits.entryBytesMax), ("CHANNELS_MAX", StreamLimits.channelsMax),
        ("CHANNELS_GONE_MAX", StreamLimits.channelsGoneMax),
        ("SENDS_LISTED_MAX", StreamLimits.sendsListedMax),
        ("SENDS_LISTED_MS", StreamLimits.sendsListedMilliseconds),
        ("SENDS_READ_MAX", StreamLimits.sendsReadMax), ("COMMAND_KEPT_BYTES_MAX", StreamLimits.commandKeptBytesMax),
        ("AUDIT_ENTRIES_MAX", StreamLimits.auditEntriesMax),
        ("KEY_AUDIT_ENTRIES_MAX", StreamLimits.keyAuditEntriesMax),
        ("AUDIT_KEPT_MS", StreamLimits.auditKeptMilliseconds),
        ("PROCESSES_MAX", StreamLimits.serviceProcessesMax),
        ("PROCESS_SILENT_MS", Int(StreamLimits.serviceSilenceMilliseconds)),
        ("PROCESS_KEPT_MS", Int(StreamLimits.serviceKeptMilliseconds)),
        ("DELIVERIES_TOGETHER_MAX", Int(StreamLimits.deliveriesTogetherMax)),
    ])
    func `The functions enforce the limits that Swift names`(name: String, limit: Int) {
        let text = String(decoding: StreamFunctions.source, as: UTF8.self)
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("local \(name) = ") }
        #expect(lines.count == 1)
        #expect(lines.allSatisfy { $0.split(separator: " ").dropFirst(3).first == "\(limit)" })
    }
}
