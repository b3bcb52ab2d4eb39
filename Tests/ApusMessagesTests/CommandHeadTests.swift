import ApusCore
import ApusMessages
import Testing

@Suite struct CommandHeadTests {
    private static let head =
        Wire.text(1, "order-17") + Wire.text(2, "shop") + Wire.text(5, "key") + Wire.text(8, "apus:receipts:shop")

    private static var known: CommandHead {
        var command = SendCommand(app: "shop", target: .topic("t"), notification: Notification())
        command.id = "order-17"
        command.idempotencyKey = "key"
        command.replyTo = "apus:receipts:shop"
        return CommandHead(command)
    }

    private static let rests: [(String, [UInt8])] = [
        ("nothing else", []), ("a text with a NUL", Wire.nested([4], Wire.bytes(1, [0]))),
        ("a field of a later version", Wire.bytes(900, [1])), ("a number where a message belongs", Wire.number(3, 1)),
        ("an end too early", [0x22, 0x7f, 0x01]), ("a field of no form", [0x07]),
        ("the same again", Wire.text(1, "other") + Wire.text(2, "other")),
    ]

    @Test(arguments: Self.rests) func `The head is read whatever follows it`(_ name: String, _ rest: [UInt8]) {
        #expect(CommandHead(reading: Self.head + rest) == Self.known, "\(name)")
        #expect(throws: MessageError.self) { try SendCommand.decode(Self.head + rest) }
    }

    @Test func `A field that is too long or not a text is left out, and the rest is read`() {
        let long = String(repeating: "a", count: 5_000)
        for bad in [Array(long.utf8), [0x61, 0x00], [0xff, 0xfe]] as [[UInt8]] {
            let head = CommandHead(reading: Wire.bytes(1, bad) + Wire.bytes(8, bad) + Wire.text(2, "shop"))
            #expect(head.id.isEmpty && head.replyTo.isEmpty && head.app == "shop")
        }
    }

    @Test func `Bytes that are not a message have no head`() {
        var command = SendCommand(app: "", target: .topic("t"), notification: Notification())
        command.id = ""
        for bytes in [[], [0xff], [0x0a, 0x05, 0x61], Array(repeating: 0x08, count: 300)] as [[UInt8]] {
            #expect(CommandHead(reading: bytes) == CommandHead(command))
        }
    }
}
