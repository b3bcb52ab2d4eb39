import ApusMessages
import ApusProviders
import Testing

@Suite("apns-id")
struct DeliveryIDTests {
    private func bytes(_ id: DeliveryID) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 16)
        var target = bytes.mutableSpan
        id.write(to: &target)
        return bytes
    }

    @Test("sixteen bytes: digest, version 8, digest, variant, partition, ordinal, generation")
    func layout() {
        let id = DeliveryID(
            sendDigest: 0x1122_3344_5566_7788,
            partition: 0x0123,
            ordinal: 0x89ab_cdef,
            generation: 0x0001_4567
        )
        #expect(
            self.bytes(id) == [
                0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x87, 0x78, 0x81, 0x23, 0x89, 0xab, 0xcd, 0xef, 0x45, 0x67,
            ]
        )
    }

    @Test("the extremes keep version and variant")
    func extremes() {
        let ids = [
            DeliveryID(sendDigest: .max, partition: DeliveryID.partitionsMax - 1, ordinal: .max, generation: .max),
            DeliveryID(sendDigest: 0, partition: 0, ordinal: 0, generation: 0),
        ]
        for id in ids {
            #expect(self.bytes(id)[6] >> 4 == 8)
            #expect(self.bytes(id)[8] >> 6 == 0b10)
        }
    }

    @Test("a row of a table gives the same words as the place that it stands for")
    func words() {
        let device = DeliveryID.words(send: 77, partition: 5, ordinal: 6, generation: 7)
        let place = DeliveryID(sendDigest: 77, partition: 5, ordinal: 6, generation: 7)
        #expect(device.0 == place.high && device.1 == place.low)
        let row = DeliveryID.words(send: 77, partition: .max, ordinal: 6, generation: 7)
        let address = DeliveryID(sendDigest: 77, place: .address(6))
        #expect(row.0 == address.high && row.1 == address.low)
    }

    @Test("the same place of the same send has the same id; any other has another")
    func distinct() {
        let base = DeviceReference(partition: 1, ordinal: 2, generation: 3)
        let ids: [DeliveryID] = [
            DeliveryID(sendDigest: 16, place: .device(base)), DeliveryID(sendDigest: 32, place: .device(base)),
            DeliveryID(sendDigest: 16, place: .device(DeviceReference(partition: 2, ordinal: 2, generation: 3))),
            DeliveryID(sendDigest: 16, place: .device(DeviceReference(partition: 1, ordinal: 3, generation: 3))),
            DeliveryID(sendDigest: 16, place: .device(DeviceReference(partition: 1, ordinal: 2, generation: 4))),
            DeliveryID(sendDigest: 16, place: .address(2)), DeliveryID(sendDigest: 16, place: .address(3)),
        ]
        #expect(Set(ids).count == ids.count)
        #expect(DeliveryID(sendDigest: 16, place: .device(base)) == ids[0])
    }
}
