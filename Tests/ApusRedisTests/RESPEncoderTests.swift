import ApusCore
import ApusRedis
import NIOCore
import Testing

@Suite("RESP encoder")
struct RESPEncoderTests {
    @Test("a command is written as the protocol says")
    func plain() {
        let command = RedisCommand("XADD", "{q1}in", "*", "m", .bytes([0, 13, 10]), .integer(-12))
        let text = "*6\r\n$4\r\nXADD\r\n$6\r\n{q1}in\r\n$1\r\n*\r\n$1\r\nm\r\n$3\r\n\0\r\n\r\n$3\r\n-12\r\n"
        #expect(String(buffer: command.encoded) == text)
    }

    @Test("a function's call names its keys first")
    func functionCall() {
        let command = RedisCommand.call("apus1_f", keys: ["{q1}a", "{q1}b"], arguments: ["x", 1], readOnly: true)
        #expect(command.encoded == RedisCommand("FCALL_RO", "apus1_f", 2, "{q1}a", "{q1}b", "x", 1).encoded)
    }

    @Test("it writes what hiredis writes, for any arguments", arguments: 0..<20 as Range<UInt64>)
    func oracle(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<100 {
            let count = Int.random(in: 1...40, using: &generator)
            var arguments: [[UInt8]] = []
            var encoder = RESPEncoder(argumentCount: count)
            for _ in 0..<count {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0:
                    let number = Int64(bitPattern: generator.next()) >> Int64.random(in: 0..<64, using: &generator)
                    arguments.append(Array(String(number).utf8))
                    encoder.append(number)
                case 1:
                    let text = String(generator.next(), radix: 36) + "ü€𝄞"
                    arguments.append(Array(text.utf8))
                    encoder.append(.text(text))
                case 2:
                    let bytes = (0..<Int.random(in: 0...300, using: &generator)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    }
                    arguments.append(bytes)
                    encoder.append(bytes.span)
                default:
                    let bytes = [UInt8](repeating: 0x2a, count: Int.random(in: 0...20_000, using: &generator))
                    arguments.append(bytes)
                    encoder.append(.buffer(ByteBuffer(bytes: bytes)))
                }
            }
            let expected = RESPEncoder.encodedByHiredis(arguments)
            #expect(Array(encoder.buffer.readableBytesView) == expected, "seed \(seed)")
        }
    }

    @Test("a command with arguments missing traps")
    func incomplete() async {
        await #expect(processExitsWith: .failure) {
            _ = RedisCommand(RESPEncoder(argumentCount: 2), label: "")
        }
    }
}
