import ApusCore
import ApusMessages
import Testing

@Suite("What is not the wire format, or could be read in two ways, is refused") struct WireFormatTests {
    /// Every sample's bytes with its decoder, as a closure that says whether the bytes gave back the sample.
    private static let samples: [(name: String, bytes: [UInt8], gives: @Sendable ([UInt8]) throws -> Bool)] = [
        sample(Samples.sendCommand), sample(Samples.workUnit), sample(Samples.outcomeBatch),
        sample(Samples.deviceRecord), sample(Samples.deviceRegistration), sample(Samples.registrationCommand),
        sample(Samples.sendReceipt), sample(Samples.clientEvent), sample(Samples.deadLetter),
    ]

    private static func sample<M: Message>(
        _ message: M
    ) -> (name: String, bytes: [UInt8], gives: @Sendable ([UInt8]) throws -> Bool) {
        ("\(M.self)", (try? message.encode()) ?? [], { try M.decode($0) == message })
    }

    @Test func aMessageCutShortAnywhereIsNotTheMessage() throws {
        for (name, bytes, gives) in Self.samples {
            #expect(try gives(bytes))
            for count in 0..<bytes.count {
                let isSample = (try? gives(Array(bytes[..<count]))) ?? false
                #expect(!isSample, "\(name), cut to \(count) bytes")
            }
        }
    }

    @Test func aLengthBeyondTheEndIsRefusedAtEveryPlace() throws {
        for (name, bytes, gives) in Self.samples {
            for place in bytes.indices {
                let length: [UInt8] = [0xff, 0xff, 0xff, 0xff, 0x7f]
                let broken = Array(bytes[..<place]) + length + Array(bytes[(place + 1)...])
                let isSample = (try? gives(broken)) ?? false
                #expect(!isSample, "\(name), byte \(place)")
            }
        }
    }

    @Test(arguments: [
        Refusal("a tag without its value", ClientEvent.self, Least.event + [0x30], .malformed, "action"),
        Refusal("a tag cut short", ClientEvent.self, Least.event + [0xf0], .malformed),
        Refusal("field number 0", ClientEvent.self, Least.event + [0x00, 0x00], .malformed),
        Refusal(
            "a tag of six bytes",
            ClientEvent.self,
            Least.event + [0xb0, 0x80, 0x80, 0x80, 0x80, 0x00, 0],
            .malformed
        ),
        Refusal(
            "a tag of 33 bits",
            ClientEvent.self,
            Least.event + [0xb8, 0x80, 0x80, 0x80, 0x10, 0x00],
            .malformed
        ),
        Refusal("a group begins", ClientEvent.self, Least.event + [0x33], .malformed),
        Refusal("a group ends", ClientEvent.self, Least.event + [0x34], .malformed),
        Refusal("wire type 6", ClientEvent.self, Least.event + [0x36, 0], .malformed),
        Refusal("wire type 7", ClientEvent.self, Least.event + [0x37, 0], .malformed),
        Refusal("an unknown field cut short", ClientEvent.self, Least.event + Wire.tag(99, 2) + [5, 1], .malformed),
        Refusal("an unknown number cut short", ClientEvent.self, Least.event + Wire.tag(99, 0) + [0x80], .malformed),
        Refusal("unknown eight bytes cut short", ClientEvent.self, Least.event + Wire.tag(99, 1) + [0, 0], .malformed),
        Refusal(
            "unknown four bytes cut short",
            ClientEvent.self,
            Least.event + Wire.tag(99, 5) + [0, 0, 0],
            .malformed
        ),
        Refusal(
            "a number of eleven bytes",
            ClientEvent.self,
            Least.event + Wire.tag(7, 0) + Array(repeating: 0x80, count: 10) + [0],
            .malformed,
            "at_ms"
        ),
        Refusal(
            "a number of 65 bits",
            ClientEvent.self,
            Least.event + Wire.tag(7, 0) + Array(repeating: 0xff, count: 9) + [0x02],
            .malformed,
            "at_ms"
        ),
        Refusal(
            "33 bits for a number of 32",
            SendCommand.self,
            Least.command + Wire.number(10, 1 << 32),
            .malformed,
            "rate_per_second"
        ),
        Refusal(
            "a word that only its low bits know",
            SendCommand.self,
            Least.command + Wire.number(9, 1 << 32 | 1),
            .malformed,
            "receipt_level"
        ),
        Refusal(
            "33 bits in a packed run",
            DeviceRecord.self,
            Least.record + Wire.bytes(5, [1] + Wire.varint(1 << 32)),
            .malformed,
            "topics[0]"
        ),
        Refusal(
            "a packed run cut short",
            DeviceRecord.self,
            Least.record + Wire.bytes(5, [1, 0x80]),
            .malformed,
            "topics[0]"
        ),
        Refusal("text as a number", SendCommand.self, Wire.number(2, 1), .malformed, "app"),
        Refusal("text as eight bytes", SendCommand.self, Wire.fixed64(2, 1), .malformed, "app"),
        Refusal("text as four bytes", SendCommand.self, Wire.tag(2, 5) + [0, 0, 0, 0], .malformed, "app"),
        Refusal("a number as text", SendCommand.self, Wire.text(7, "1"), .malformed, "not_before_ms"),
        Refusal("a number as eight bytes", SendCommand.self, Wire.fixed64(7, 1), .malformed, "not_before_ms"),
        Refusal("a message as a number", SendCommand.self, Wire.number(3, 1), .malformed, "target"),
        Refusal(
            "a double as a number",
            SendCommand.self,
            RefusalTests.command(notification: Wire.number(30, 1)),
            .malformed,
            "notification.relevance_score"
        ),
        Refusal(
            "a digest as a number",
            OutcomeBatch.self,
            Least.batch + Wire.nested([9], Wire.number(2, 1)),
            .malformed,
            "unregistered[0].token_digest"
        ),
        Refusal("a field twice", SendCommand.self, Least.command + Wire.text(2, "b"), .malformed, "app"),
        Refusal("a message twice", SendCommand.self, Least.command + Wire.bytes(4, []), .malformed, "notification"),
        Refusal(
            "two audiences",
            SendCommand.self,
            RefusalTests.command(target: Wire.text(4, "t") + Wire.text(5, "c")),
            .malformed,
            "target.condition"
        ),
        Refusal(
            "two badges",
            SendCommand.self,
            RefusalTests.command(notification: Wire.number(14, 1) + Wire.number(15, 1)),
            .malformed,
            "notification.badge_increment"
        ),
        Refusal(
            "a message that ends beyond the one that holds it",
            SendCommand.self,
            Least.app + Wire.bytes(3, Wire.tag(4, 2) + [9, 0x74]) + Wire.text(4, "title title"),
            .malformed,
            "target.topic"
        ),
    ])
    func malformed(_ refusal: Refusal) { refusal.check() }

    @Test(
        arguments: [
            ("a lone continuation", [0x80]), ("a sequence cut short", [0xe2, 0x98]),
            ("an overlong slash", [0xc0, 0xaf]),
            ("an overlong slash in three bytes", [0xe0, 0x80, 0xaf]), ("a surrogate", [0xed, 0xa0, 0x80]),
            ("beyond Unicode", [0xf4, 0x90, 0x80, 0x80]), ("Latin-1", [0x47, 0xfc, 0x6e]), ("a byte of no use", [0xff]),
            ("NUL", [0]), ("NUL within", [0x61, 0, 0x62]), ("NUL at the end", [0x61, 0]),
            ("overlong NUL", [0xc0, 0x80]),
        ] as [(String, [UInt8])]
    )
    func brokenText(_ name: String, _ text: [UInt8]) {
        let good = Wire.nested([22], Wire.text(1, "a") + Wire.text(2, "b"))
        let entries =
            good + Wire.nested([22], Wire.text(1, "b")) + Wire.nested([22], Wire.text(1, "c"))
            + Wire.nested([22], Wire.text(1, "d") + Wire.bytes(2, text))
        for refusal in [
            Refusal(
                name,
                SendCommand.self,
                RefusalTests.command(notification: entries),
                .invalidText,
                "notification.data[3].value"
            ),
            Refusal(
                name,
                SendCommand.self,
                RefusalTests.command(target: Wire.bytes(4, text)),
                .invalidText,
                "target.topic"
            ),
            Refusal(
                name,
                SendCommand.self,
                RefusalTests.command(target: Wire.nested([2], Wire.bytes(1, text))),
                .invalidText,
                "target.devices.ids[0]"
            ),
            Refusal(
                name,
                DeviceRecord.self,
                Least.record + Wire.nested([6], Wire.text(5, "t") + Wire.bytes(5, text)),
                .invalidText,
                "attributes.tags[1]"
            ),
            Refusal(name, DeadLetter.self, Least.letter + Wire.bytes(5, text), .invalidText, "detail"),
        ] { refusal.check() }
    }

    @Test func bytesMayHoldAnything() throws {
        let record = try DeviceRecord.decode(Wire.bytes(1, [0, 0xff, 0x80, 0]) + Wire.text(8, "d"))
        #expect(record.token == [0, 0xff, 0x80, 0])
    }

    @Test func fieldsInAnyOrderAndRunsInAnyFormAreReadAlike() throws {
        let record =
            Wire.text(8, "d") + Wire.number(5, 1) + Wire.bytes(5, [2, 3]) + Wire.bytes(5, []) + Wire.bytes(1, [0])
        #expect(try DeviceRecord.decode(record).topics == [1, 2, 3])
    }

    @Test func anEmptyValueOfDataMayBeWrittenOrLeftOut() throws {
        for value in [Wire.text(2, ""), []] {
            let entry = Wire.nested([22], Wire.text(1, "k") + value)
            let command = try SendCommand.decode(RefusalTests.command(notification: entry))
            #expect(command.notification.data == ["k": ""])
            #expect(try SendCommand.decode(command.encode()) == command)
        }
    }

    @Test func textWithANULIsRefusedWhenEncodingToo() {
        var command = Samples.sendCommand
        command.notification.titleLocArgs = ["fine", "not\u{0}fine"]
        #expect(throws: MessageError(.invalidText, field: "notification.title_loc_args[1]", "must not hold a NUL")) {
            try command.encode()
        }
    }
}
