package import ApusCore

/// A packed device record, read where it lies: what the delivery path needs of it, without memory or counting of references.
///
/// Made once per device and send. It keeps places, not bytes: each question that needs the bytes takes them again, and
/// they must be the same. All that `DeviceRecord.decode` refuses is refused here too, but for two things: text is not
/// checked for UTF-8 and NUL (it was when the record was written), and nothing is counted against the arena.
package struct DeviceRecordView: Sendable {
    /// A further token of the device.
    package struct SecondaryAddress: Sendable {
        /// What it addresses.
        package internal(set) var kind: TokenKind = .device
        /// Where its token is.
        package internal(set) var token: Range<Int> = 0..<0
        /// Where the id of its Live Activity is; empty: none.
        package internal(set) var activityID: Range<Int> = 0..<0
        /// Seconds since 1970; 0: never.
        package internal(set) var expiresAtSeconds: Int64 = 0
        /// True when it is not sent to for now.
        package internal(set) var isSuspect = false
        /// The time at which the app registered it; 0: not known.
        package internal(set) var registeredAt = UnixMilliseconds(0)
        /// True when the provider takes it in the other environment than the device's own.
        package internal(set) var isOfOtherEnvironment = false
    }

    /// A stretch of the record: four bytes instead of sixteen, as the whole view is copied where it is returned.
    struct Place: Sendable {
        var start: UInt16 = 0
        var count: UInt16 = 0
    }

    /// Where the whole record is.
    package var record: Range<Int> { self.start..<(self.start + Int(self.count)) }
    /// Where the token is: raw bytes or text. Never empty.
    package var token: Range<Int> { self.range(self.tokenPlace) }
    /// Which of the provider's worlds.
    package internal(set) var environment: ProviderEnvironment = .production
    /// What the token addresses.
    package internal(set) var tokenKind: TokenKind = .device
    /// Where the owner's id is; empty: nobody's.
    package var user: Range<Int> { self.range(self.userPlace) }
    /// The number of topics it subscribes.
    package internal(set) var topicCount: UInt32 = 0
    /// Where the locale is; empty: unknown.
    package var locale: Range<Int> { self.range(self.localePlace) }
    /// Where the time zone is; empty: unknown.
    package var timeZone: Range<Int> { self.range(self.timeZonePlace) }
    /// Where the app's version is; empty: unknown.
    package var appVersion: Range<Int> { self.range(self.appVersionPlace) }
    /// Where the country is; empty: unknown.
    package var country: Range<Int> { self.range(self.countryPlace) }
    /// The number of tags it has.
    package internal(set) var tagCount: UInt32 = 0
    /// Hours since 1970.
    package internal(set) var seenAtHours: UInt32 = 0
    /// Where the Web Push key is: 65 bytes, or none.
    package var webpushP256DH: Range<Int> { self.range(self.webpushP256DHPlace) }
    /// Where the Web Push secret is: 16 bytes, or none.
    package var webpushAuth: Range<Int> { self.range(self.webpushAuthPlace) }
    /// The reason why it is not sent to for the time being; nil when it is.
    package internal(set) var suspicion: DeviceRecord.Suspicion?
    /// The number of further tokens it has.
    package internal(set) var secondaryCount: UInt32 = 0

    /// Where the record begins among the bytes; places count from here.
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
    var attributesPlace = Place()
    /// The topics, if they stand in one packed run, as every writer of ours leaves them.
    var topicRun = Place()
    /// True when they do not: allowed by the format, and read the slow way.
    var hasScatteredTopics = false

    /// How the device's id stands in the record.
    enum DeviceForm: Sendable {
        case text
        case lowerUUID
        case upperUUID
    }

    /// Reads the record at `range` of the bytes; nil when it is malformed or beyond the limits.
    package init?(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count)
        guard range.count <= Limits.deviceRecordBytesMax else { return nil }
        self.start = range.lowerBound
        self.count = UInt16(range.count)
        guard self.parse(bytes) else { return nil }
    }

    /// Reads bytes that are one record and nothing else; nil when it is malformed or beyond the limits.
    package init?(_ bytes: Span<UInt8>) { self.init(bytes, 0..<bytes.count) }

    func range(_ place: Place) -> Range<Int> {
        let lower = self.start + Int(place.start)
        return lower..<(lower + Int(place.count))
    }

    func place(_ range: Range<Int>) -> Place {
        Place(start: UInt16(range.lowerBound - self.start), count: UInt16(range.count))
    }

    /// The device's id. Never empty. The one answer that takes memory.
    package func device(in bytes: Span<UInt8>) -> String {
        let place = self.range(self.devicePlace)
        let stored = place.map { bytes[$0] }
        switch self.deviceForm {
        case .text: return String(decoding: stored, as: UTF8.self)
        case .lowerUUID, .upperUUID:
            guard let text = PackedUUID.text(stored, inUpperCase: self.deviceForm == .upperUUID) else {
                preconditionFailure("a UUID of \(place.count) bytes was taken")
            }
            return text
        }
    }

    /// Returns true when the device subscribes the topic of that number.
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
            // They ascend.
            if topic >= number { return topic == number }
        }
        return false
    }

    /// Returns true when the app gave the device that tag.
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

    /// The first further token for which `isWanted` says so.
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

    /// Returns true when that place of the bytes holds exactly `text`: to compare the owner, the locale and the like.
    package static func isEqual(_ place: Range<Int>, _ text: Span<UInt8>, in bytes: Span<UInt8>) -> Bool {
        guard place.count == text.count else { return false }
        for index in text.indices where bytes[place.lowerBound + index] != text[index] { return false }
        return true
    }
}
