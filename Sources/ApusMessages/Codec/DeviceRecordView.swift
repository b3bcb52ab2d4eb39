package import ApusCore

/// Reads a packed device record in place: the fields that delivery needs, without allocations or reference counting.
///
/// A view is made once per device and send. It holds offsets, not bytes: each query that needs the bytes takes them
/// again, and they must be the same. Everything that `DeviceRecord.decode` refuses is refused here too, with two
/// exceptions: text is not checked for UTF-8 and NUL (it was when the record was written), and nothing is counted
/// against the arena.
package struct DeviceRecordView: Sendable {
    /// A further token of the device.
    package struct SecondaryAddress: Sendable {
        /// The kind of token.
        package internal(set) var kind: TokenKind = .device
        /// The range of its token.
        package internal(set) var token: Range<Int> = 0..<0
        /// The range of its Live Activity's id; empty for none.
        package internal(set) var activityID: Range<Int> = 0..<0
        /// The expiry in seconds since 1970; 0 for never.
        package internal(set) var expiresAtSeconds: Int64 = 0
        /// True while the token is quarantined.
        package internal(set) var isSuspect = false
        /// The time of registration; 0 when unknown.
        package internal(set) var registeredAt = UnixMilliseconds(0)
        /// True when the provider accepts the token in the other environment than the device's own.
        package internal(set) var isOfOtherEnvironment = false
    }

    /// A range of the record in four bytes instead of sixteen, because the whole view is copied where it is returned.
    struct Place: Sendable {
        var start: UInt16 = 0
        var count: UInt16 = 0
    }

    /// The range of the whole record.
    package var record: Range<Int> { self.start..<(self.start + Int(self.count)) }
    /// The range of the token: raw bytes or text. Never empty.
    package var token: Range<Int> { self.range(self.tokenPlace) }
    /// The token's environment.
    package internal(set) var environment: ProviderEnvironment = .production
    /// The kind of token.
    package internal(set) var tokenKind: TokenKind = .device
    /// The range of the owner's id; empty for none.
    package var user: Range<Int> { self.range(self.userPlace) }
    /// The number of the device's topics.
    package internal(set) var topicCount: UInt32 = 0
    /// The range of the locale; empty when unknown.
    package var locale: Range<Int> { self.range(self.localePlace) }
    /// The range of the time zone; empty when unknown.
    package var timeZone: Range<Int> { self.range(self.timeZonePlace) }
    /// The range of the app's version; empty when unknown.
    package var appVersion: Range<Int> { self.range(self.appVersionPlace) }
    /// The range of the country; empty when unknown.
    package var country: Range<Int> { self.range(self.countryPlace) }
    /// The number of the device's tags.
    package internal(set) var tagCount: UInt32 = 0
    /// The time of the last registration in hours since 1970.
    package internal(set) var seenAtHours: UInt32 = 0
    /// The range of the Web Push key: 65 bytes, or none.
    package var webpushP256DH: Range<Int> { self.range(self.webpushP256DHPlace) }
    /// The range of the Web Push secret: 16 bytes, or none.
    package var webpushAuth: Range<Int> { self.range(self.webpushAuthPlace) }
    /// The range of the key that a browser subscribed with: 65 bytes, or none.
    package var applicationServerKey: Range<Int> { self.range(self.serverKeyPlace) }
    /// True when the record has the keys that notifications are encrypted with.
    package var hasRecipientKeys: Bool { !self.webpushP256DH.isEmpty && !self.webpushAuth.isEmpty }
    /// The end of a browser's subscription in seconds since 1970; 0 for none.
    package internal(set) var expiresAtSeconds: Int64 = 0
    /// The quarantine of the token; nil when it gets messages.
    package internal(set) var suspicion: DeviceRecord.Suspicion?
    /// The number of further tokens.
    package internal(set) var secondaryCount: UInt32 = 0

    /// The offset of the record in the bytes, from which places count.
    let start: Int
    private let count: UInt16
    var tokenPlace = Place()
    var userPlace = Place()
    var localePlace = Place()
    var timeZonePlace = Place()
    var appVersionPlace = Place()
    var countryPlace = Place()
    var devicePlace = Place()
    var deviceForm = DeviceForm.text
    var webpushP256DHPlace = Place()
    var webpushAuthPlace = Place()
    var serverKeyPlace = Place()
    var attributesPlace = Place()
    /// The topics, if they are one packed run, as all our writers leave them.
    var topicRun = Place()
    /// True when they are not: the format allows it, and they are read the slow way.
    var hasScatteredTopics = false

    /// The forms of the device's id in the record.
    enum DeviceForm: Sendable {
        case text
        case lowerUUID
        case upperUUID
    }

    /// Parses the record at `range` of the bytes; nil when it is malformed or exceeds the limits.
    package init?(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count)
        guard range.count <= Limits.deviceRecordBytesMax else { return nil }
        self.start = range.lowerBound
        self.count = UInt16(range.count)
        guard self.parse(bytes) else { return nil }
    }

    /// Parses bytes that are one record and nothing else; nil when it is malformed or exceeds the limits.
    package init?(_ bytes: Span<UInt8>) { self.init(bytes, 0..<bytes.count) }

    func range(_ place: Place) -> Range<Int> {
        let lower = self.start + Int(place.start)
        return lower..<(lower + Int(place.count))
    }

    func place(_ range: Range<Int>) -> Place {
        Place(start: UInt16(range.lowerBound - self.start), count: UInt16(range.count))
    }

    /// Appends the recipient's keys, which the record has, in the layout of ``RecipientKeys``.
    package func appendRecipientKeys(in bytes: Span<UInt8>, to keys: inout [UInt8]) {
        RecipientKeys.append(
            publicKey: bytes.extracting(self.webpushP256DH),
            secret: bytes.extracting(self.webpushAuth),
            serverKey: bytes.extracting(self.applicationServerKey),
            to: &keys,
        )
    }

    /// Returns the device's id, which is never empty. It is the only query that allocates.
    package func device(in bytes: Span<UInt8>) -> String {
        let place = self.range(self.devicePlace)
        let stored = place.map { bytes[$0] }
        switch self.deviceForm {
        case .text: return String(decoding: stored, as: UTF8.self)
        case .lowerUUID, .upperUUID:
            guard let text = PackedUUID.text(stored, inUpperCase: self.deviceForm == .upperUUID) else {
                preconditionFailure("a UUID of \(place.count) bytes was accepted")
            }
            return text
        }
    }

    /// Returns true when the device subscribes to the topic of a number.
    package func hasTopic(_ number: UInt32, in bytes: Span<UInt8>) -> Bool {
        guard self.hasScatteredTopics else {
            return Self.hasTopic(number, WireReader(self.range(self.topicRun)), bytes)
        }
        var reader = WireReader(self.record)
        while !reader.isAtEnd, let tag = reader.tag(bytes) {
            switch (tag.number, tag.form) {
            case (Field.topics, .varint): if reader.narrowVarint(bytes) == number { return true }
            case (Field.topics, .lengthDelimited):
                guard let run = reader.range(bytes) else { return false }
                if Self.hasTopic(number, WireReader(run), bytes) { return true }
            default: guard reader.skip(tag.form, bytes) else { return false }
            }
        }
        return false
    }

    private static func hasTopic(_ number: UInt32, _ run: WireReader, _ bytes: Span<UInt8>) -> Bool {
        var run = run
        while !run.isAtEnd, let topic = run.narrowVarint(bytes) {
            // Topic numbers ascend.
            if topic >= number { return topic == number }
        }
        return false
    }

    /// Returns true when the device has a tag.
    package func hasTag(_ tag: Span<UInt8>, in bytes: Span<UInt8>) -> Bool {
        guard self.tagCount > 0 else { return false }
        var reader = WireReader(self.range(self.attributesPlace))
        while !reader.isAtEnd, let next = reader.tag(bytes) {
            guard next.number == AttributeField.tags else {
                guard reader.skip(next.form, bytes) else { return false }
                continue
            }
            guard let place = reader.range(bytes) else { return false }
            if Self.isEqual(place, tag, in: bytes) { return true }
        }
        return false
    }

    /// Returns the first further token for which `isWanted` returns true.
    package func secondaryAddress(
        in bytes: Span<UInt8>,
        where isWanted: (SecondaryAddress) -> Bool,
    ) -> SecondaryAddress? {
        guard self.secondaryCount > 0 else { return nil }
        var reader = WireReader(self.record)
        while !reader.isAtEnd, let tag = reader.tag(bytes) {
            guard tag.number == Field.secondary else {
                guard reader.skip(tag.form, bytes) else { return nil }
                continue
            }
            var unknownFieldsLeft = Limits.messageUnknownFieldsMax
            guard let place = reader.range(bytes), let address = SecondaryAddress(bytes, place, &unknownFieldsLeft)
            else { return nil }
            if isWanted(address) { return address }
        }
        return nil
    }

    /// Returns true when a place of the bytes holds exactly `text`: to compare the owner, the locale and the like.
    package static func isEqual(_ place: Range<Int>, _ text: Span<UInt8>, in bytes: Span<UInt8>) -> Bool {
        guard place.count == text.count else { return false }
        for index in text.indices where bytes[place.lowerBound + index] != text[index] { return false }
        return true
    }
}
