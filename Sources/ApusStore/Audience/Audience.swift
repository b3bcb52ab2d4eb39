internal import ApusCore
package import ApusMessages

/// An audience expression prepared for a store: topics by number, times resolved, one form for each realm.
package struct Audience: Hashable, Sendable {
    private let node: RealmAudience.Node
    private let forms: [Realm: RealmAudience]

    init(_ node: RealmAudience.Node) {
        self.node = node
        self.forms = Dictionary(uniqueKeysWithValues: Realm.allCases.map { ($0, RealmAudience(node, in: $0)) })
    }

    /// Returns the audience in a realm.
    package subscript(realm: Realm) -> RealmAudience { self.forms[realm] ?? RealmAudience(self.node, in: realm) }
}

/// An audience expression for one realm, in which everything that depends on the realm alone is resolved.
package struct RealmAudience: Hashable, Sendable {
    /// The condition that a device must meet.
    indirect enum Node: Hashable, Sendable {
        case topic(UInt32)
        case test(AudienceTest)
        case constant(Bool)
        case not(Node)
        case and(Node, Node)
        case or(Node, Node)
    }

    /// The realm.
    package let realm: Realm
    /// A topic expression that covers the whole audience, and also other devices unless it is exact.
    package let postings: TopicExpression
    /// True when the topics decide alone, so that no record need be read.
    package let isExact: Bool
    private let node: Node

    init(_ node: Node, in realm: Realm) {
        self.realm = realm
        self.node = node
        let bounds = Self.bounds(node, realm)
        self.postings = bounds.upper
        self.isExact = bounds.lower == bounds.upper
    }

    /// Returns true when a device belongs to the audience, by its record. Allocates nothing.
    ///
    /// - Parameter view: a view of the record within `value`, which begins with the header.
    package func matches(_ view: DeviceRecordView, _ header: RecordHeader, in value: Span<UInt8>) -> Bool {
        Self.matches(self.node, view, header, value, self.realm)
    }

    private static func matches(
        _ node: Node,
        _ view: DeviceRecordView,
        _ header: RecordHeader,
        _ value: Span<UInt8>,
        _ realm: Realm,
    ) -> Bool {
        switch node {
        case .topic(let number): view.hasTopic(number, in: value)
        case .test(let test): test.holds(view, header, in: value, realm: realm)
        case .constant(let truth): truth
        case .not(let inner): !Self.matches(inner, view, header, value, realm)
        case .and(let one, let other):
            Self.matches(one, view, header, value, realm) && Self.matches(other, view, header, value, realm)
        case .or(let one, let other):
            Self.matches(one, view, header, value, realm) || Self.matches(other, view, header, value, realm)
        }
    }

    /// Returns the devices that belong to the audience whatever the records say, and those that may.
    private static func bounds(_ node: Node, _ realm: Realm) -> (lower: TopicExpression, upper: TopicExpression) {
        switch node {
        case .topic(let number): return (.topic(number), .topic(number))
        case .constant(let truth): return truth ? (.everyone, .everyone) : (.nobody, .nobody)
        case .test(let test):
            switch test.holds(in: realm) {
            case true?: return (.everyone, .everyone)
            case false?: return (.nobody, .nobody)
            case nil: return (.nobody, .everyone)
            }
        case .not(let inner):
            let bounds = Self.bounds(inner, realm)
            return (Self.not(bounds.upper), Self.not(bounds.lower))
        case .and(let one, let other):
            let (first, second) = (Self.bounds(one, realm), Self.bounds(other, realm))
            return (Self.and(first.lower, second.lower), Self.and(first.upper, second.upper))
        case .or(let one, let other):
            let (first, second) = (Self.bounds(one, realm), Self.bounds(other, realm))
            return (Self.or(first.lower, second.lower), Self.or(first.upper, second.upper))
        }
    }

    // Resolved terms do not stay in the expression, so fewer postings are read.

    private static func not(_ expression: TopicExpression) -> TopicExpression {
        switch expression {
        case .everyone: .nobody
        case .nobody: .everyone
        case .not(let inner): inner
        case .topic, .and, .or: .not(expression)
        }
    }

    private static func and(_ one: TopicExpression, _ other: TopicExpression) -> TopicExpression {
        switch (one, other) {
        case (.nobody, _), (_, .nobody): .nobody
        case (.everyone, let rest), (let rest, .everyone): rest
        default: one == other ? one : .and([one, other])
        }
    }

    private static func or(_ one: TopicExpression, _ other: TopicExpression) -> TopicExpression {
        switch (one, other) {
        case (.everyone, _), (_, .everyone): .everyone
        case (.nobody, let rest), (let rest, .nobody): rest
        default: one == other ? one : .or([one, other])
        }
    }
}

extension AudienceExpression {
    /// Returns the expression over topic numbers and resolved times. A topic without a number has no devices.
    func node(_ numbers: [TopicName: UInt32], now: UnixMilliseconds) -> RealmAudience.Node {
        switch self {
        case .topic(let name): numbers[name].map { .topic($0) } ?? .constant(false)
        case .test(.time(let attribute, let order, let moment)):
            .test(.time(attribute, order, .at(moment.resolved(now: now))))
        case .test(let test): .test(test)
        case .not(let inner): .not(inner.node(numbers, now: now))
        case .and(let one, let other): .and(one.node(numbers, now: now), other.node(numbers, now: now))
        case .or(let one, let other): .or(one.node(numbers, now: now), other.node(numbers, now: now))
        }
    }
}
