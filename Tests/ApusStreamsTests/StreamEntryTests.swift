import ApusCore
import ApusStreams
import Testing

@Suite struct StreamEntryTests {
    @Test(
        arguments: [
            ("1750000000000-0", 1_750_000_000_000), ("1750000000000-17", 1_750_000_000_000), ("1-1", nil), ("", nil),
            ("x-1", nil), ("99999999999999999999-1", nil),
        ] as [(String, Int64?)]
    )
    func `An entry's id has the time at which Redis appended it, unless its writer chose it`(
        id: String,
        written: Int64?
    ) {
        #expect(StreamEntry(stream: "s", id: id, message: []).writtenAt == written.map { UnixMilliseconds($0) })
    }
}
