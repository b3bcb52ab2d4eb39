public import ApusCore
public import ApusRedis

/// Names of the consumer groups.
public enum StreamGroup {
    /// The group that reads mailboxes, plans and work.
    public static let dispatcher = "dispatcher"
    /// The group that reads registrations.
    public static let registration = "registration"
    /// The group that reads outcomes and client events.
    public static let feedback = "feedback"
    /// The group that reads receipts and posts them.
    public static let webhooks = "webhooks"
}

/// Names every stream key of one queue shard. The tag comes first, so that no id can choose the slot.
public struct StreamKeys: Hashable, Sendable {
    /// The prefix of every publisher's own receipts stream.
    public static let replyPrefix = "apus:receipts:"
    /// The key of the numbers of routes.
    public static let routes = "apus:routes"
    /// The key of the set of publishers that have mailboxes of their own.
    package static let publishers = "apus:publishers"
    /// The key of the list of the services' processes.
    package static let services = "apus:services"
    /// The key of the trail of what operators did.
    package static let audit = "apus:audit"
    /// The key of the list of apps that have a trail of their own.
    package static let keyAuditApps = "apus:{audit:keys}"

    /// Returns the key of the trail of what was done with an app's keys, and sent by commands: no app can push entries of another out of it, nor
    /// what else operators did.
    package static func keyAudit(of app: String) -> String { "\(Self.keyAuditApps):\(app)" }

    /// The shard's tag.
    public let tag: HashTag

    /// Creates the keys of that shard.
    public init(tag: HashTag) { self.tag = tag }

    /// Returns the stream of commands as publishers write them.
    ///
    /// - Parameter publisher: the publisher whose own mailbox it is; nil for the one that publishers share.
    public func mailbox(_ lane: Lane, of publisher: PublisherName? = nil) -> String {
        self.key("in:\(lane.name)" + (publisher.map { ":\($0)" } ?? ""))
    }
    /// Returns all mailboxes of a lane: the shared one, then those of publishers.
    package func mailboxes(_ lane: Lane, _ publishers: [PublisherName]) -> [String] {
        [self.mailbox(lane)] + publishers.map { self.mailbox(lane, of: $0) }
    }

    /// Returns the stream of sends, as `<app>/<id>`, whose recipients of a route are being found.
    public func plan(_ route: RouteNumber) -> String { self.key("plan:\(route)") }
    /// Returns the stream of work units of a route.
    public func work(_ route: RouteNumber, _ lane: Lane) -> String { self.key(Self.workName(route, lane)) }
    /// Returns the list of plans and units of a paused send, where they delay no others.
    public func held(_ send: SendKey) -> String { self.key("held:\(send)") }
    /// The hash that counts the held entries of each paused send.
    public var heldCounts: String { self.key("held") }
    /// The sorted set of retries and scheduled sends, by time.
    public var due: String { self.key("due") }
    /// The hash of the units' journals.
    public var journal: String { self.key("journal") }
    /// Returns the hash with state, cursors and ledger of a send.
    public func send(_ send: SendKey) -> String { self.key("send:\(send)") }
    /// The hash that records when each group last took over entries.
    package var claims: String { self.key("claims") }
    /// The set of sends, as `<app>/<id>`, that are stored and have not ended.
    public var openSends: String { self.key("open_sends") }
    /// Returns the sorted set of an app's sends that have, or had lately, a ledger in this shard, by the time of their acceptance.
    package func sends(of app: String) -> String { self.key("sends:\(app)") }
    /// The key that exists while lost sends were searched for recently.
    package var swept: String { self.key("swept") }
    /// Returns the key of a send's command, which is kept until the send ends.
    public func command(_ send: SendKey) -> String { self.key("command:\(send)") }
    /// Returns the key of the command of a send that has ended, which is kept with its ledger if it is small.
    package func sent(_ send: SendKey) -> String { self.key("sent:\(send)") }
    /// Returns the hash with rate and state of a route.
    package func route(_ route: RouteNumber) -> String { self.key("route:\(route)") }
    /// Returns the sorted set of a route's quarantined tokens, by the time since when.
    package func quarantine(_ route: RouteNumber) -> String { self.key("quarantine:\(route)") }
    /// Returns the hash with the known broadcast channels of a route.
    package func channels(_ route: RouteNumber) -> String { self.key("channels:\(route)") }
    /// Returns the hash with the rate of a send.
    package func sendRate(_ send: SendKey) -> String { self.key("send_rate:\(send)") }
    /// The hash of the window of idempotency, which names its current period.
    public var idempotency: String { self.key("idem") }
    /// The stream of outcomes from dispatchers to feedback.
    public var outcomes: String { self.key("outcomes") }
    /// The stream of events that apps report.
    public var events: String { self.key("events") }
    /// Returns the hash that counts the events of a send; the sets of ids that were counted have names that begin with it.
    package func eventCounts(_ send: SendKey) -> String { self.key("event_counts:\(send)") }
    /// The stream of commands from backends to registration.
    public var register: String { self.key("register") }
    /// The stream of receipts for publishers.
    public var receipts: String { self.key("receipts") }
    /// The stream of dead letters: entries that could not be handled.
    public var dead: String { self.key("dead") }

    /// Returns the name of a work stream without its tag.
    package static func workName(_ route: RouteNumber, _ lane: Lane) -> String { "work:\(route):\(lane.name)" }

    /// Returns the lane of a mailbox, and the publisher whose own it is, from its key; nil for any other key.
    package func lane(ofMailbox key: String) -> (lane: Lane, publisher: PublisherName?)? {
        guard let name = self.name(of: key, after: "in:") else { return nil }
        for lane in Lane.allCases where name.starts(with: lane.name.utf8) {
            let rest = name.dropFirst(lane.name.utf8.count)
            if rest.isEmpty { return (lane, nil) }
            guard rest.first == Self.separator, let publisher = try? PublisherName(String(Substring(rest.dropFirst())))
            else { return nil }
            return (lane, publisher)
        }
        return nil
    }

    /// Returns true for the key of a mailbox that one publisher has to itself, in any shard.
    static func isOwnMailbox(_ key: String) -> Bool {
        let name = key.utf8.drop { $0 != UInt8(ascii: "}") }.dropFirst()
        let start = "in:".utf8
        return name.starts(with: start) && name.dropFirst(start.count).contains(Self.separator)
    }

    /// Returns the stream of a publisher's receipts: the one that a publisher with mailboxes of its own reads unless a command names another.
    package static func receipts(of publisher: PublisherName) -> String { "\(Self.replyPrefix)\(publisher)" }

    /// Returns true for a stream that belongs to a publisher with mailboxes of its own: the one of its name, or one whose name begins with it
    /// and a colon.
    package static func isReceipts(_ key: String, of publisher: PublisherName) -> Bool {
        let own = Self.receipts(of: publisher)
        return key == own || key.hasPrefix(own + ":")
    }

    /// Returns the route and lane of a work stream's key; nil for any other key.
    package func route(ofWork key: String) -> (route: RouteNumber, lane: Lane)? {
        guard let name = self.name(of: key, after: "work:") else { return nil }
        let parts = name.split(separator: Self.separator)
        guard parts.count == 2, let number = UInt32(Substring(parts[0])),
            let lane = Lane.allCases.first(where: { $0.name.utf8.elementsEqual(parts[1]) })
        else { return nil }
        return (RouteNumber(number), lane)
    }

    /// Returns the route of a plan stream's key; nil for any other key.
    package func route(ofPlan key: String) -> RouteNumber? {
        self.name(of: key, after: "plan:").flatMap { UInt32(Substring($0)) }.map { RouteNumber($0) }
    }

    private static let separator = UInt8(ascii: ":")

    /// Returns what follows the tag and that beginning in a key of the shard; nil for any other key.
    private func name(of key: String, after start: String) -> Substring.UTF8View? {
        let tag = self.tag.description.utf8
        let name = key.utf8.dropFirst(tag.count)
        guard key.utf8.starts(with: tag), name.starts(with: start.utf8) else { return nil }
        return name.dropFirst(start.utf8.count)
    }

    private func key(_ name: String) -> String { self.tag.key(name) }
}
