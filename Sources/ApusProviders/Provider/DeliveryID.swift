package import ApusMessages

/// The id of a notification to one recipient: the same on every attempt, different for every recipient and send.
///
/// It is a UUID of version 8 (RFC 9562 §5.8), whose bits except version and variant are free. From the left: sixty bits
/// of the send's digest (around the version's four), then fourteen of the partition, thirty-two of the ordinal and
/// sixteen of the generation. So an operator can find the device from the id alone.
package struct DeliveryID: Hashable, Sendable {
    /// The first eight bytes, big endian.
    package let high: UInt64
    /// The last eight bytes, big endian.
    package let low: UInt64

    /// The maximum number of partitions: fourteen bits, as many as a Redis cluster has slots.
    package static let partitionsMax: UInt32 = 1 << 14

    /// Creates the id of a send to a place in the device store.
    ///
    /// - Parameter sendDigest: the digest of the send's id; its last four bits are not used.
    package init(sendDigest: UInt64, partition: UInt32, ordinal: UInt32, generation: UInt32) {
        precondition(partition < Self.partitionsMax)
        self.high = sendDigest & ~0xffff | 0x8000 | sendDigest >> 4 & 0x0fff
        self.low = 0b10 << 62 | UInt64(partition) << 48 | UInt64(ordinal) << 16 | UInt64(generation & 0xffff)
    }

    /// Creates the id of a send to one of its recipients. An address from the command has no place in the store: its
    /// index takes the ordinal's place, under the last partition.
    package init(sendDigest: UInt64, place: RecipientPlace) {
        switch place {
        case .device(let device):
            self.init(
                sendDigest: sendDigest,
                partition: device.partition,
                ordinal: device.ordinal,
                generation: device.generation,
            )
        case .address(let index):
            self.init(sendDigest: sendDigest, partition: Self.partitionsMax - 1, ordinal: index, generation: 0xffff)
        }
    }

    /// Returns both halves of the id of a send to a recipient. A partition beyond the last one stands for an address
    /// from the command, whose index is passed as the ordinal.
    ///
    /// It runs for every device.
    @inline(__always)
    package static func words(
        send digest: UInt64,
        partition: UInt32,
        ordinal: UInt32,
        generation: UInt32,
    ) -> (UInt64, UInt64) {
        let isAddress = partition >= Self.partitionsMax
        let id = DeliveryID(
            sendDigest: digest,
            partition: isAddress ? Self.partitionsMax - 1 : partition,
            ordinal: ordinal,
            generation: isAddress ? 0xffff : generation,
        )
        return (id.high, id.low)
    }

    /// Writes the sixteen bytes at the front of `target`.
    @inline(__always)
    package func write(to target: inout MutableSpan<UInt8>) {
        for offset in 0..<8 {
            let shift = UInt64(56 - 8 * offset)
            target[offset] = UInt8(truncatingIfNeeded: self.high >> shift)
            target[8 + offset] = UInt8(truncatingIfNeeded: self.low >> shift)
        }
    }
}
