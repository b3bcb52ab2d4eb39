package import ApusCore
package import ApusMessages
internal import ApusTLS

/// Holds a device as it is stored.
package struct StoredDevice: Hashable, Sendable {
    /// The app.
    package let app: AppID
    /// The provider and environment.
    package let realm: Realm
    /// The place of the device.
    package let reference: DeviceReference
    /// The time at which the app last registered the token, as far as it was written: an unchanged registration within a minute is not.
    package let registeredAt: UnixMilliseconds
    /// The device's data. Topics are numbers; `DeviceStore.topicNames` returns their names.
    package let record: DeviceRecord
    /// The id of the device that its user lost for it, because the user had as many as may be: in the answer to the change that did so only.
    package internal(set) var displaced: String?
    /// The header and record in Redis, which the next change is compared with.
    let value: [UInt8]

    /// Reads a value of Redis.
    ///
    /// - Throws: `corrupt` for what is no record; `sealed` when it is encrypted with a key that the cipher does not have.
    init(
        app: AppID,
        realm: Realm,
        partition: Int,
        ordinal: UInt32,
        value: [UInt8],
        cipher: RecordCipher,
    ) throws(StoreError) {
        guard let header = RecordHeader(value.span) else {
            throw StoreError(.corrupt, "a record is shorter than its header")
        }
        try cipher.check(value.span)
        var opener = RecordCipher.Opener(cipher, of: app)
        let record = try opener.open(value.span) { value throws(StoreError) in try Self.record(value) }
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

    private static func record(_ value: Span<UInt8>) throws(StoreError) -> DeviceRecord {
        do throws(MessageError) {
            return try DeviceRecord.decode((RecordHeader.byteCount..<value.count).map { value[$0] })
        } catch {
            throw StoreError(.corrupt, "a record cannot be decoded: \(error)")
        }
    }

    /// Creates a device whose record was just written.
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

    /// The time that changes which have one are compared with: older ones are ignored.
    package var changedAt: UnixMilliseconds { max(self.registeredAt, self.record.changedAt) }

    /// The last day on which the app reported anything of the device.
    package var lastSeenAt: UnixMilliseconds {
        max(self.registeredAt, UnixMilliseconds(Int64(self.record.seenAtHours) * 3_600_000))
    }

    /// A strong validator (RFC 9110 §8.8.1), with quotes: it changes with every byte that is stored.
    package var etag: String {
        "\"\(Hexadecimal.encode(SHA256.hash([self.realm.digestByte], self.value).prefix(16)))\""
    }
}

/// The condition that the caller sets for a change (RFC 9110 §13).
package indirect enum DeviceCondition: Hashable, Sendable {
    /// Nothing.
    case none
    /// `If-Match` with entity tags, quotes included: the device must be in one of these states.
    case matches([String])
    /// `If-Match: *`: the device must exist.
    case exists
    /// `If-None-Match: *`: the device must not exist.
    case absent
    /// The device is that user's or nobody's, and in a state that the other condition allows.
    case belongs(to: UserID, and: DeviceCondition)
    /// The device is that user's, and not nobody's.
    case isOf(UserID)

    /// Returns false when the device belongs to another user than the one for whom a change is made.
    func isForOwner(of device: StoredDevice) -> Bool {
        switch self {
        case .belongs(let user, _): device.record.user.isEmpty || device.record.user == user.text
        case .isOf(let user): device.record.user == user.text
        case .none, .matches, .exists, .absent: true
        }
    }

    /// Returns true when the condition holds for a device, which may be missing.
    package func holds(for device: StoredDevice?) -> Bool { (try? self.check(device)) != nil }

    /// Checks a device, which may be none. It must hold of what is changed, so each record that is read is checked, but for the one that the
    /// change itself has written.
    func check(_ device: StoredDevice?) throws(StoreError) {
        let isForeign = device.map { !self.isForOwner(of: $0) } ?? false
        // A condition that only an existing device meets fails as if there were none.
        if case .belongs(_, let other) = self { try other.check(isForeign ? nil : device) }
        if isForeign { throw StoreError(.foreign, "the device is another user's") }
        let holds =
            switch self {
            case .none, .belongs, .isOf: true
            case .matches(let tags): device.map { tags.contains($0.etag) } ?? false
            case .exists: device != nil
            case .absent: device == nil
            }
        guard holds else { throw StoreError(.preconditionFailed, "the device is not in that state") }
    }
}
