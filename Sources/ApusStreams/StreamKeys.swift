public import ApusCore
public import ApusRedis

/// Names of the consumer groups.
public enum StreamGroup {
    /// Reads mailboxes, plans and work.
    public static let dispatcher = "dispatcher"
    /// Reads registrations.
    public static let registration = "registration"
    /// Reads outcomes and client events.
    public static let feedback = "feedback"
    /// Reads receipts and posts them.
    public static let webhooks = "webhooks"
}

/// Every stream key of one queue shard. The tag comes first, so that no id can choose the slot.
public struct StreamKeys: Hashable, Sendable {
    /// What every receipts stream of a publisher's own begins with.
    public static let replyPrefix = "apus:receipts:"
    /// Where routes have their numbers.
    public static let routes = "apus:routes"

    /// The shard's tag.
    public let tag: HashTag

    /// The keys of that shard.
    public init(tag: HashTag) { self.tag = tag }

    /// Commands as publishers write them.
    public func mailbox(_ lane: Lane) -> String { self.key("in:\(lane.name)") }
    /// Sends, as `<app>/<id>`, whose recipients of a route are being found.
    public func plan(_ route: RouteNumber) -> String { self.key("plan:\(route)") }
    /// Work units of a route.
    public func work(_ route: RouteNumber, _ lane: Lane) -> String { self.key(Self.workName(route, lane)) }
    /// Plans and units of a paused send, where they keep no others waiting.
    public func held(_ send: SendKey) -> String { self.key("held:\(send)") }
    /// How many held entries each paused send has.
    public var heldCounts: String { self.key("held") }
    /// Retries and scheduled sends by their time.
    public var due: String { self.key("due") }
    /// Done bitmaps of units.
    public var journal: String { self.key("journal") }
    /// State, cursors and ledger of a send.
    public func send(_ send: SendKey) -> String { self.key("send:\(send)") }
    /// When each group last asked for what others left.
    package var claims: String { self.key("claims") }
    /// The sends, as `<app>/<id>`, that are kept and have not ended.
    public var openSends: String { self.key("open_sends") }
    /// There while somebody looked for lost sends lately.
    package var swept: String { self.key("swept") }
    /// The command of a send, until it ends.
    public func command(_ send: SendKey) -> String { self.key("command:\(send)") }
    /// Rate and state of a route.
    package func route(_ route: RouteNumber) -> String { self.key("route:\(route)") }
    /// Tokens of a route that a provider called bad, by the time since when.
    package func quarantine(_ route: RouteNumber) -> String { self.key("quarantine:\(route)") }
    /// What is known of the broadcast channels of a route.
    package func channels(_ route: RouteNumber) -> String { self.key("channels:\(route)") }
    /// Rate of a send.
    package func sendRate(_ send: SendKey) -> String { self.key("send_rate:\(send)") }
    /// The window of idempotency, and which of its parts is the current one.
    public var idempotency: String { self.key("idem") }
    /// Outcomes from dispatchers to feedback.
    public var outcomes: String { self.key("outcomes") }
    /// Events that apps report.
    public var events: String { self.key("events") }
    /// Counts of the events of a send; the names of sets of the ids that were counted begin with it.
    package func eventCounts(_ send: SendKey) -> String { self.key("event_counts:\(send)") }
    /// Commands from backends to registration.
    public var register: String { self.key("register") }
    /// Receipts for publishers.
    public var receipts: String { self.key("receipts") }
    /// Dead letters: entries that could not be handled.
    public var dead: String { self.key("dead") }

    /// The name of a work stream without its tag.
    package static func workName(_ route: RouteNumber, _ lane: Lane) -> String { "work:\(route):\(lane.name)" }

    /// The route and lane of a work stream's key; nil for any other key.
    package func route(ofWork key: String) -> (route: RouteNumber, lane: Lane)? {
        let prefix = self.key("work:")
        guard key.hasPrefix(prefix) else { return nil }
        let parts = key.dropFirst(prefix.count).split(separator: ":")
        guard parts.count == 2, let number = UInt32(parts[0]),
            let lane = Lane.allCases.first(where: { $0.name == parts[1] })
        else { return nil }
        return (RouteNumber(number), lane)
    }

    /// The route of a plan stream's key; nil for any other key.
    package func route(ofPlan key: String) -> RouteNumber? {
        let prefix = self.key("plan:")
        guard key.hasPrefix(prefix) else { return nil }
        return UInt32(key.dropFirst(prefix.count)).map { RouteNumber($0) }
    }

    private func key(_ name: String) -> String { self.tag.key(name) }
}
