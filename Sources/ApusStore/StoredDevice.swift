package import ApusCore
package import ApusMessages
internal import ApusTLS

/// A device as the store holds it.
package struct StoredDevice: Hashable, Sendable {
    /// Whose app it runs.
    package let app: AppID
    /// Provider and environment.
    package let realm: Realm
    /// Its place.
    package let reference: DeviceReference
    /// When the app last registered the token, as far as that was written: an unchanged registration within a day is not.
    package let registeredAt: UnixMilliseconds
    /// All that is known of it. Topics are numbers; `DeviceStore.topicNames` has their names.
    package let record: DeviceRecord
    /// Header and record as Redis holds them: what the next change is compared with.
    let value: [UInt8]

    init(app: AppID, realm: Realm, partition: Int, ordinal: UInt32, value: [UInt8]) throws(StoreError) {
        guard let header = RecordHeader(value.span) else {
            throw StoreError(.corrupt, "a record is shorter than its header")
        }
        let record: DeviceRecord
        do throws(MessageError) {
            record = try DeviceRecord.decode(Array(value.dropFirst(RecordHeader.byteCount)))
        } catch {
            throw StoreError(.corrupt, "a record cannot be decoded: \(error)")
        }
        self.app = app
        self.realm = realm
        self.reference = DeviceReference(
            partition: UInt32(partition),
            ordinal: ordinal,
            generation: header.generation,
        )
        self.registeredAt = header.registeredAt
        self.record = record
        self.value = value
    }

    /// A device whose record was just written.
    init(
        _ app: AppID,
        _ realm: Realm,
        _ partition: Int,
        _ ordinal: UInt32,
        _ header: [UInt8],
        _ record: DeviceRecord,
        _ encoded: [UInt8],
    ) throws(StoreError) {
        guard header.count == RecordHeader.byteCount, let parsed = RecordHeader(header.span) else {
            throw StoreError(.corrupt, "a header has another length")
        }
        self.app = app
        self.realm = realm
        self.reference = DeviceReference(
            partition: UInt32(partition),
            ordinal: ordinal,
            generation: parsed.generation,
        )
        self.registeredAt = parsed.registeredAt
        self.record = record
        self.value = header + encoded
    }

    /// The device's id.
    package var id: String { self.record.device }

    /// When the app last gave a sign of life, to the day.
    package var lastSeenAt: UnixMilliseconds {
        max(self.registeredAt, UnixMilliseconds(Int64(self.record.seenAtHours) * 3_600_000))
    }

    /// A strong validator (RFC 9110 §8.8.1), quotes included: changes with every byte that is stored.
    package var etag: String {
        "\"\(Hexadecimal.encode(SHA256.hash([self.realm.digestByte], self.value).prefix(16)))\""
    }
}

/// What the caller makes a condition of a change: RFC 9110 §13.
package indirect enum DeviceCondition: Hashable, Sendable {
    /// Nothing.
    case none
    /// `If-Match` with entity tags, quotes included: the device is in one of these states.
    case matches([String])
    /// `If-Match: *`: the device is there.
    case exists
    /// `If-None-Match: *`: it is not.
    case absent
    /// The device is that user's or nobody's, and in a state that the other condition allows.
    case belongs(to: UserID, and: DeviceCondition)

    /// Checks a device, which may be none.
    ///
    /// - Parameter isFirst: whether this is the first look. What it was at the first one may be otherwise by our own doing; whose it is must
    ///   hold until the change is written.
    func check(_ device: StoredDevice?, isFirst: Bool = true) throws(StoreError) {
        if case .belongs(let user, let other) = self {
            if let device, !device.record.user.isEmpty, device.record.user != user.text {
                throw StoreError(.foreign, "the device is another user's")
            }
            return try other.check(device, isFirst: isFirst)
        }
        guard isFirst else { return }
        let holds =
            switch self {
            case .none: true
            case .matches(let tags): device.map { tags.contains($0.etag) } ?? false
            case .exists: device != nil
            case .absent: device == nil
            case .belongs: true
            }
        guard holds else { throw StoreError(.preconditionFailed, "the device is not in that state") }
    }
}
