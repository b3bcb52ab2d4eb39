package import ApusCore
internal import ApusMessages

/// A test of one attribute of a device.
///
/// An attribute that the app has not reported equals nothing but `''`, and matches no order.
package enum AudienceTest: Hashable, Sendable {
    /// An attribute with a text.
    package enum TextAttribute: String, Hashable, Sendable, CaseIterable {
        /// The language (BCP 47). A shorter tag matches all that begin with it (RFC 4647 §3.3.1): `en` matches `en-GB`; case does not
        /// matter.
        case locale
        /// The country (ISO 3166-1 alpha-2); case does not matter.
        case country
        /// The time zone (IANA).
        case timeZone = "time_zone"
        /// The user of the device.
        case user
    }

    /// An attribute with a point in time.
    package enum TimeAttribute: String, Hashable, Sendable, CaseIterable {
        /// The time at which the app last reported anything of the device; it moves at most daily.
        case seenAt = "seen_at"
        /// The time at which the app last registered the token.
        case registeredAt = "registered_at"
    }

    /// The order that two values must have. "Not equal" is a negation.
    package enum Order: String, Hashable, Sendable, CaseIterable {
        /// The value comes before the other one.
        case less = "<"
        /// The value comes before the other one or equals it.
        case lessOrEqual = "<="
        /// The values are equal.
        case equal = "=="
        /// The value comes after the other one or equals it.
        case greaterOrEqual = ">="
        /// The value comes after the other one.
        case greater = ">"

        /// Returns true when values with that result of a comparison (negative: before) have this order.
        func holds(_ comparison: Int) -> Bool {
            switch self {
            case .less: comparison < 0
            case .lessOrEqual: comparison <= 0
            case .equal: comparison == 0
            case .greaterOrEqual: comparison >= 0
            case .greater: comparison > 0
            }
        }
    }

    /// A point in time.
    package enum Moment: Hashable, Sendable {
        /// An absolute time.
        case at(UnixMilliseconds)
        /// The time so many milliseconds after the send is due; a negative number is before it.
        case sinceNow(Int64)

        /// Returns the time, for a send that is due at `now`.
        func resolved(now: UnixMilliseconds) -> UnixMilliseconds {
            switch self {
            case .at(let time): time
            case .sinceNow(let offset): now.advanced(byMilliseconds: offset)
            }
        }
    }

    /// The provider is one of these.
    case provider([Provider])
    /// The provider's environment is this one; most providers know only production.
    case environment(ProviderEnvironment)
    /// The text is one of these.
    case text(TextAttribute, [[UInt8]])
    /// The app gave the device this tag.
    case tag([UInt8])
    /// The app's version has this order to that one.
    case version(Order, [UInt8])
    /// The app's version is unknown.
    case noVersion
    /// The time has this order to that one.
    case time(TimeAttribute, Order, Moment)

    /// Returns the result that the realm alone decides; nil when the record must be read.
    func holds(in realm: Realm) -> Bool? {
        switch self {
        case .provider(let providers): providers.contains(realm.provider)
        case .environment(let environment): realm.environment == environment
        case .text, .tag, .version, .noVersion, .time: nil
        }
    }

    /// Returns true when a record passes. Times are resolved. Allocates nothing.
    func holds(_ view: DeviceRecordView, _ header: RecordHeader, in value: Span<UInt8>, realm: Realm) -> Bool {
        switch self {
        case .provider(let providers): return providers.contains(realm.provider)
        case .environment(let environment): return realm.environment == environment
        case .text(let attribute, let wanted):
            let place = Self.place(attribute, view)
            for text in wanted where Self.matches(attribute, place, text.span, value) { return true }
            return false
        case .tag(let tag): return view.hasTag(tag.span, in: value)
        case .version(let order, let version):
            let place = view.appVersion
            guard !place.isEmpty, let comparison = VersionOrder.compare(value.extracting(place), version.span)
            else { return false }
            return order.holds(comparison)
        case .noVersion: return view.appVersion.isEmpty
        case .time(let attribute, let order, let moment):
            guard case .at(let wanted) = moment else { preconditionFailure("a time that was not resolved") }
            let time: UnixMilliseconds
            switch attribute {
            case .seenAt:
                guard view.seenAtHours > 0 else { return false }
                time = UnixMilliseconds(Int64(view.seenAtHours) * 3_600_000)
            case .registeredAt: time = header.registeredAt
            }
            return order.holds(time < wanted ? -1 : time == wanted ? 0 : 1)
        }
    }

    private static func place(_ attribute: TextAttribute, _ view: DeviceRecordView) -> Range<Int> {
        switch attribute {
        case .locale: view.locale
        case .country: view.country
        case .timeZone: view.timeZone
        case .user: view.user
        }
    }

    private static func matches(
        _ attribute: TextAttribute,
        _ place: Range<Int>,
        _ wanted: Span<UInt8>,
        _ value: Span<UInt8>,
    ) -> Bool {
        guard !wanted.isEmpty, !place.isEmpty else { return wanted.isEmpty && place.isEmpty }
        switch attribute {
        case .timeZone, .user: return DeviceRecordView.isEqual(place, wanted, in: value)
        case .country: return place.count == wanted.count && Self.begins(place, wanted, value)
        case .locale:
            guard place.count >= wanted.count, Self.begins(place, wanted, value) else { return false }
            return place.count == wanted.count || Self.folded(value[place.lowerBound + wanted.count]) == 0x2d
        }
    }

    /// Returns true when the range begins with the text, whatever the case.
    private static func begins(_ place: Range<Int>, _ text: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        for index in 0..<text.count
        where Self.folded(value[place.lowerBound + index]) != Self.folded(text[index]) { return false }
        return true
    }

    /// Lower-cases a letter, and turns `_` into `-`: systems say `pt_BR` where BCP 47 says `pt-BR`.
    private static func folded(_ byte: UInt8) -> UInt8 {
        switch byte {
        case 0x41...0x5a: byte | 0x20
        case 0x5f: 0x2d
        default: byte
        }
    }
}

extension AudienceTest {
    /// The text of the test in an expression.
    var text: String {
        switch self {
        case .provider(let providers): Self.comparison("provider", providers.map(\.name))
        case .environment(let environment): "environment == \(Self.quoted(environment.name))"
        case .text(let attribute, let values):
            Self.comparison(attribute.rawValue, values.map { String(decoding: $0, as: UTF8.self) })
        case .tag(let tag): "\(Self.quoted(String(decoding: tag, as: UTF8.self))) in tags"
        case .version(let order, let version):
            "app_version \(order.rawValue) \(Self.quoted(String(decoding: version, as: UTF8.self)))"
        case .noVersion: "app_version == ''"
        case .time(let attribute, let order, let moment): "\(attribute.rawValue) \(order.rawValue) \(Self.text(moment))"
        }
    }

    private static func comparison(_ name: String, _ values: [String]) -> String {
        values.count == 1
            ? "\(name) == \(Self.quoted(values[0]))"
            : "\(name) in [\(values.map(Self.quoted).joined(separator: ", "))]"
    }

    /// Returns a text in whichever quotes it does not contain.
    static func quoted(_ text: String) -> String { text.contains("'") ? "\"\(text)\"" : "'\(text)'" }

    private static func text(_ moment: Moment) -> String {
        switch moment {
        case .at(let time): return "'\(CalendarTime.text(time))'"
        case .sinceNow(0): return "now"
        case .sinceNow(let offset):
            let seconds = offset.magnitude / 1_000
            let unit = CalendarTime.units.first { seconds.isMultiple(of: $0.seconds) } ?? CalendarTime.units[0]
            return "now\(offset < 0 ? "-" : "+")\(seconds / unit.seconds)\(unit.name)"
        }
    }
}
