package import ApusCore
internal import ApusMessages

/// What one attribute of a device must be.
///
/// An attribute that the app never told is equal to nothing but `''`, and stands in no order.
package enum AudienceTest: Hashable, Sendable {
    /// An attribute that is text.
    package enum TextAttribute: String, Hashable, Sendable, CaseIterable {
        /// BCP 47. A shorter tag stands for all that begin with it (RFC 4647 §3.3.1): `en` for `en-GB`; case does not matter.
        case locale
        /// ISO 3166-1 alpha-2; case does not matter.
        case country
        /// IANA.
        case timeZone = "time_zone"
        /// Whose it is.
        case user
    }

    /// An attribute that is a point in time.
    package enum TimeAttribute: String, Hashable, Sendable, CaseIterable {
        /// When the app last said anything of the device; moves at most daily.
        case seenAt = "seen_at"
        /// When the app last registered the token.
        case registeredAt = "registered_at"
    }

    /// How two values must stand to each other. "Not equal" is a negation.
    package enum Order: String, Hashable, Sendable, CaseIterable {
        /// Before.
        case less = "<"
        /// Before or equal.
        case lessOrEqual = "<="
        /// Equal.
        case equal = "=="
        /// After or equal.
        case greaterOrEqual = ">="
        /// After.
        case greater = ">"

        /// Whether a value that stands so to the other one (negative: before it) does.
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
        /// That one.
        case at(UnixMilliseconds)
        /// So many milliseconds after the send is due; negative: before.
        case sinceNow(Int64)

        /// When that is.
        func resolved(now: UnixMilliseconds) -> UnixMilliseconds {
            switch self {
            case .at(let time): time
            case .sinceNow(let offset): now.advanced(byMilliseconds: offset)
            }
        }
    }

    /// Who delivers is one of these.
    case provider([Provider])
    /// Which of the provider's worlds; most know only production.
    case environment(ProviderEnvironment)
    /// The text is one of these.
    case text(TextAttribute, [[UInt8]])
    /// The app gave the device this tag.
    case tag([UInt8])
    /// The app's version stands so to this one.
    case version(Order, [UInt8])
    /// The app's version is unknown.
    case noVersion
    /// The time stands so to that one.
    case time(TimeAttribute, Order, Moment)

    /// What a realm alone decides; nil: the record must be read.
    func holds(in realm: Realm) -> Bool? {
        switch self {
        case .provider(let providers): providers.contains(realm.provider)
        case .environment(let environment): realm.environment == environment
        case .text, .tag, .version, .noVersion, .time: nil
        }
    }

    /// Whether a record is so. Times are resolved. Allocates nothing.
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

    /// Whether the place begins with the text, whatever the case.
    private static func begins(_ place: Range<Int>, _ text: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        for index in 0..<text.count
        where Self.folded(value[place.lowerBound + index]) != Self.folded(text[index]) { return false }
        return true
    }

    /// Small letters, and `-` for `_`: systems say `pt_BR` where BCP 47 says `pt-BR`.
    private static func folded(_ byte: UInt8) -> UInt8 {
        switch byte {
        case 0x41...0x5a: byte | 0x20
        case 0x5f: 0x2d
        default: byte
        }
    }
}

extension AudienceTest {
    /// As it is written.
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

    /// In whichever quotes it does not contain.
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
