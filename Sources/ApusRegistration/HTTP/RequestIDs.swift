internal import ApusCore
internal import ApusTLS
internal import Synchronization

/// Chooses ids of requests, so that an answer can be matched with a log line.
final class RequestIDs: Sendable {
    /// The maximum length of an id that is adopted from a client.
    static let bytesMax = 64
    private let prefix = Hexadecimal.encode(SecureRandom.bytes(4))
    private let counter = Atomic<UInt64>(0)

    /// Returns the client's own id when it is valid, else a new one.
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
