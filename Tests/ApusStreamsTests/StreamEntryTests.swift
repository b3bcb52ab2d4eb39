import ApusCore
import ApusMessages
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

    @Test func `Sends that use an id again differ by their hour and their keys`() {
        func use(_ hour: Int64, _ key: String = "") -> UInt32 {
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            (command.id, command.idempotencyKey) = ("again", key)
            command.publishedAtNanoseconds = hour * 3_600_000_000_000 + 1_800_000_000_000
            return SendIdentity.idUse(of: command)
        }
        #expect(use(0) == 0 && use(500_000) == 500_000)
        #expect(Set([use(500_000), use(500_001), use(500_000, "a"), use(500_000, "b"), use(500_001, "a")]).count == 5)
    }

    @Test func `A command without an id is another send where the server gave its place to another`() throws {
        func identity(title: String, id: String = "", deliveries: UInt32 = 1) throws -> SendIdentity {
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            command.id = id
            command.notification.title = title
            let entry = StreamEntry(
                stream: "{q1}in:express",
                id: "1750000000000-0",
                message: try command.encode(),
                deliveries: deliveries
            )
            return SendIdentity(of: command, source: entry.source)
        }
        #expect(try identity(title: "first").send != identity(title: "second").send)
        #expect(try identity(title: "first") == identity(title: "first", deliveries: 3))
        #expect(try identity(title: "first", id: "mine").send == "mine")
    }
}
