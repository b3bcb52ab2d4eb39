internal import ApusCore
internal import ApusTLS
internal import Synchronization

/// Names requests, for whoever compares an answer with a log line.
final class RequestIDs: Sendable {
    /// Longest id that is taken over from a client.
    static let bytesMax = 64
    private let prefix = Hexadecimal.encode(SecureRandom.bytes(4))
    private let counter = Atomic<UInt64>(0)

    /// The client's own id when it is a decent one, else a new one.
    func id(_ wanted: String?) -> String {
        if let wanted, (1...Self.bytesMax).contains(wanted.utf8.count), wanted.utf8.allSatisfy(Self.isDecent) {
            return wanted
        }
        let number = self.counter.wrappingAdd(1, ordering: .relaxed).newValue
        return "\(self.prefix)-\(String(number, radix: 16))"
    }

    private static func isDecent(_ byte: UInt8) -> Bool {
        (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
            || byte == 0x2d || byte == 0x2e || byte == 0x5f
    }
}
