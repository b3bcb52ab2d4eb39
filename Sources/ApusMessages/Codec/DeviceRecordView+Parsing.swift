internal import ApusCore

// The field numbers of device.proto. A test compares them, and the rules beside them, with the codec by the same bytes.
extension DeviceRecordView {
    enum Field {
        static let token: UInt32 = 1
        static let environment: UInt32 = 2
        static let tokenKind: UInt32 = 3
        static let user: UInt32 = 4
        static let topics: UInt32 = 5
        static let attributes: UInt32 = 6
        static let seenAtHours: UInt32 = 7
        static let device: UInt32 = 8
        static let webpushP256DH: UInt32 = 9
        static let webpushAuth: UInt32 = 10
        static let suspicion: UInt32 = 11
        static let secondary: UInt32 = 12
        static let environmentLearned: UInt32 = 13
        static let deviceUUID: UInt32 = 14
        static let deviceUUIDUpper: UInt32 = 15
        static let formerUser: UInt32 = 16
        static let applicationServerKey: UInt32 = 17
        static let expiresAtSeconds: UInt32 = 18
        static let changedAt: UInt32 = 19
        /// The three fields that can hold the device's id, of which one may be present.
        static let deviceBits: UInt32 = 1 << Self.device | 1 << Self.deviceUUID | 1 << Self.deviceUUIDUpper
    }

    enum AttributeField {
        static let locale: UInt32 = 1
        static let timeZone: UInt32 = 2
        static let appVersion: UInt32 = 3
        static let country: UInt32 = 4
        static let tags: UInt32 = 5
    }

    /// Fills this view; returns false when the record is malformed.
    mutating func parse(_ bytes: Span<UInt8>) -> Bool {
        var reader = WireReader(self.record)
        var seen: UInt32 = 0
        var lastTopic: UInt32 = 0
        var unknownFieldsLeft = Limits.messageUnknownFieldsMax
        while !reader.isAtEnd {
            guard let tag = reader.tag(bytes) else { return false }
            switch tag.number {
            case Field.topics:
                guard self.parseTopics(tag.form, bytes, &reader, &lastTopic) else { return false }
                continue
            case Field.secondary:
                guard tag.form == .lengthDelimited, let place = reader.range(bytes),
                    SecondaryAddress(bytes, place, &unknownFieldsLeft) != nil
                else { return false }
                self.secondaryCount += 1
                continue
            case Field.formerUser:
                guard seen & 1 << tag.number == 0, tag.form == .fixed32, reader.skip(tag.form, bytes) else {
                    return false
                }
                seen |= 1 << tag.number
            case Field.expiresAtSeconds:
                guard seen & 1 << tag.number == 0, tag.form == .varint, let value = reader.varint(bytes),
                    value <= UInt64(Limits.timeMax.seconds)
                else { return false }
                self.expiresAtSeconds = Int64(value)
                seen |= 1 << tag.number
            case Field.changedAt:
                guard seen & 1 << tag.number == 0, tag.form == .varint, let value = reader.varint(bytes),
                    value <= UInt64(Limits.timeMax.value)
                else { return false }
                seen |= 1 << tag.number
            case Field.applicationServerKey, Field.token...Field.suspicion,
                Field.environmentLearned...Field.deviceUUIDUpper:
                let bit: UInt32 = 1 << tag.number
                let others = bit & Field.deviceBits == 0 ? bit : Field.deviceBits
                guard seen & others == 0, self.parseSingle(tag, bytes, &reader, &unknownFieldsLeft) else {
                    return false
                }
                seen |= bit
            default:
                unknownFieldsLeft -= 1
                guard unknownFieldsLeft >= 0, reader.skip(tag.form, bytes) else { return false }
            }
        }
        return self.tokenPlace.count > 0 && self.devicePlace.count > 0
            && self.secondaryCount <= Limits.secondaryAddressesMax
            && self.topicCount <= Limits.topicsPerDeviceMax
    }

    /// Parses a field that occurs once.
    private mutating func parseSingle(
        _ tag: WireReader.Tag,
        _ bytes: Span<UInt8>,
        _ reader: inout WireReader,
        _ unknownFieldsLeft: inout Int,
    ) -> Bool {
        if tag.form == .varint {
            guard let value = reader.narrowVarint(bytes) else { return false }
            switch tag.number {
            case Field.environment: return Self.read(value, into: &self.environment)
            case Field.tokenKind: return Self.read(value, into: &self.tokenKind)
            case Field.seenAtHours: self.seenAtHours = value
            case Field.environmentLearned: break
            default: return false
            }
            return true
        }
        guard tag.form == .lengthDelimited, let place = reader.range(bytes) else { return false }
        switch tag.number {
        case Field.token:
            self.tokenPlace = self.place(place)
            return place.count <= Limits.tokenBytesMax
        case Field.user:
            self.userPlace = self.place(place)
            return place.count <= Limits.userIDBytesMax
        case Field.attributes:
            self.attributesPlace = self.place(place)
            return self.parseAttributes(bytes, &unknownFieldsLeft)
        case Field.device:
            self.devicePlace = self.place(place)
            return place.count <= Limits.deviceIDBytesMax
        case Field.deviceUUID, Field.deviceUUIDUpper:
            self.devicePlace = self.place(place)
            self.deviceForm = tag.number == Field.deviceUUID ? .lowerUUID : .upperUUID
            return place.count == PackedUUID.byteCount
        case Field.webpushP256DH:
            self.webpushP256DHPlace = self.place(place)
            return place.isEmpty || place.count == Limits.webpushP256DHBytes
        case Field.webpushAuth:
            self.webpushAuthPlace = self.place(place)
            return place.isEmpty || place.count == Limits.webpushAuthBytes
        case Field.applicationServerKey:
            self.serverKeyPlace = self.place(place)
            return place.isEmpty || place.count == Limits.webpushP256DHBytes
        case Field.suspicion:
            self.suspicion = DeviceRecord.Suspicion(bytes, place, &unknownFieldsLeft)
            return self.suspicion != nil
        default: return false
        }
    }

    private mutating func parseTopics(
        _ form: WireReader.Form,
        _ bytes: Span<UInt8>,
        _ reader: inout WireReader,
        _ last: inout UInt32,
    ) -> Bool {
        let place: Range<Int>
        switch form {
        case .varint:
            let start = reader.position
            guard reader.varint(bytes) != nil else { return false }
            place = start..<reader.position
        case .lengthDelimited:
            guard let run = reader.range(bytes) else { return false }
            place = run
        case .fixed32, .fixed64: return false
        }
        guard !place.isEmpty else { return true }
        if self.topicCount == 0, form == .lengthDelimited {
            self.topicRun = self.place(place)
        } else {
            self.hasScatteredTopics = true
        }
        var run = WireReader(place)
        while !run.isAtEnd {
            guard let topic = run.narrowVarint(bytes), topic > last || self.topicCount == 0 else { return false }
            last = topic
            self.topicCount += 1
        }
        return true
    }

    private mutating func parseAttributes(_ bytes: Span<UInt8>, _ unknownFieldsLeft: inout Int) -> Bool {
        var reader = WireReader(self.range(self.attributesPlace))
        var seen: UInt32 = 0
        while !reader.isAtEnd {
            guard let tag = reader.tag(bytes) else { return false }
            guard tag.number <= AttributeField.tags else {
                unknownFieldsLeft -= 1
                guard unknownFieldsLeft >= 0, reader.skip(tag.form, bytes) else { return false }
                continue
            }
            guard tag.form == .lengthDelimited, let place = reader.range(bytes) else { return false }
            let bit: UInt32 = 1 << tag.number
            guard seen & bit == 0 || tag.number == AttributeField.tags else { return false }
            seen |= bit
            let bytesMax: Int
            switch tag.number {
            case AttributeField.locale:
                self.localePlace = self.place(place)
                bytesMax = Limits.localeBytesMax
            case AttributeField.timeZone:
                self.timeZonePlace = self.place(place)
                bytesMax = Limits.timeZoneBytesMax
            case AttributeField.appVersion:
                self.appVersionPlace = self.place(place)
                bytesMax = Limits.appVersionBytesMax
            case AttributeField.country:
                self.countryPlace = self.place(place)
                bytesMax = Limits.countryBytesMax
            default:
                self.tagCount += 1
                bytesMax = Limits.tagBytesMax
                guard !place.isEmpty else { return false }
            }
            guard place.count <= bytesMax else { return false }
        }
        return self.tagCount <= Limits.tagsPerDeviceMax
    }

    /// Reads an enum value where 0 leaves the default; returns false for an unknown one.
    fileprivate static func read<Word: RawRepresentable>(_ number: UInt32, into word: inout Word) -> Bool
    where Word.RawValue == UInt8 {
        guard number != 0 else { return true }
        guard let small = UInt8(exactly: number), let known = Word(rawValue: small) else { return false }
        word = known
        return true
    }
}

extension DeviceRecordView.SecondaryAddress {
    init?(_ bytes: Span<UInt8>, _ range: Range<Int>, _ unknownFieldsLeft: inout Int) {
        var reader = WireReader(range)
        var seen: UInt32 = 0
        var kind: TokenKind?
        while !reader.isAtEnd {
            guard let tag = reader.tag(bytes) else { return nil }
            guard tag.number <= 7 else {
                unknownFieldsLeft -= 1
                guard unknownFieldsLeft >= 0, reader.skip(tag.form, bytes) else { return nil }
                continue
            }
            let bit: UInt32 = 1 << tag.number
            guard seen & bit == 0 else { return nil }
            seen |= bit
            switch (tag.number, tag.form) {
            case (1, .varint):
                guard let number = reader.narrowVarint(bytes).flatMap({ UInt8(exactly: $0) }) else { return nil }
                kind = TokenKind(rawValue: number)
            case (2, .lengthDelimited):
                guard let place = reader.range(bytes) else { return nil }
                self.token = place
            case (3, .lengthDelimited):
                guard let place = reader.range(bytes) else { return nil }
                self.activityID = place
            case (4, .varint):
                guard let number = reader.varint(bytes) else { return nil }
                self.expiresAtSeconds = Int64(bitPattern: number)
            case (5, .varint):
                guard let number = reader.narrowVarint(bytes) else { return nil }
                self.isSuspect = number != 0
            case (6, .varint):
                guard let number = reader.varint(bytes) else { return nil }
                self.registeredAt = UnixMilliseconds(Int64(bitPattern: number))
            case (7, .varint):
                guard let number = reader.narrowVarint(bytes) else { return nil }
                self.isOfOtherEnvironment = number != 0
            default: return nil
            }
        }
        guard let kind, (1...Limits.tokenBytesMax).contains(self.token.count),
            self.activityID.count <= Limits.nameBytesMax,
            (0...Limits.timeMax.seconds).contains(self.expiresAtSeconds),
            (0...Limits.timeMax.value).contains(self.registeredAt.value)
        else { return nil }
        self.kind = kind
    }
}

extension DeviceRecord.Suspicion {
    fileprivate init?(_ bytes: Span<UInt8>, _ range: Range<Int>, _ unknownFieldsLeft: inout Int) {
        var reader = WireReader(range)
        var seen: UInt32 = 0
        var since: Int64 = 0
        var reason: Reason?
        while !reader.isAtEnd {
            guard let tag = reader.tag(bytes) else { return nil }
            guard tag.number <= 2 else {
                unknownFieldsLeft -= 1
                guard unknownFieldsLeft >= 0, reader.skip(tag.form, bytes) else { return nil }
                continue
            }
            let bit: UInt32 = 1 << tag.number
            guard seen & bit == 0, tag.form == .varint, let number = reader.varint(bytes) else { return nil }
            seen |= bit
            if tag.number == 1 {
                since = Int64(bitPattern: number)
            } else {
                guard let number = UInt8(exactly: number) else { return nil }
                reason = Reason(rawValue: number)
            }
        }
        guard let reason, (0...Limits.timeMax.value).contains(since) else { return nil }
        self.init(since: UnixMilliseconds(since), reason: reason)
    }
}
