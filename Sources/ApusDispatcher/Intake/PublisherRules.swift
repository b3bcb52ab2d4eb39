internal import ApusCore
internal import ApusMessages
internal import ApusService
internal import ApusStreams
internal import Synchronization

/// Decides what a publisher with mailboxes of its own may publish. Pure.
///
/// Redis lets no other publisher write there, so the mailbox proves who wrote a command.
struct PublisherRules: Hashable, Sendable {
    /// The publisher's name.
    let name: PublisherName
    /// The apps that it may publish for.
    let apps: Set<AppID>

    /// Returns a command with the stream that its receipts go to: the publisher's own where the command names none.
    ///
    /// - Throws: `not_permitted` for an app that is not the publisher's, and for a stream of receipts that is another's.
    func permitted(_ command: SendCommand) throws(Problem) -> SendCommand {
        guard self.apps.contains(where: { $0.text == command.app }) else {
            let list = self.apps.sorted().map(\.text).joined(separator: ", ")
            throw Problem(
                code: Self.code,
                field: "app",
                detail: "the publisher \(self.name) may publish for \(list.isEmpty ? "no app" : list + " only")",
            )
        }
        guard command.replyTo.isEmpty || StreamKeys.isReceipts(command.replyTo, of: self.name) else {
            let own = StreamKeys.receipts(of: self.name)
            throw Problem(
                code: Self.code,
                field: "reply_to",
                detail: "receipts of the publisher \(self.name) go to \(own), or to a stream that begins with \(own):",
            )
        }
        var command = command
        if command.replyTo.isEmpty { command.replyTo = StreamKeys.receipts(of: self.name) }
        return command
    }

    /// Returns a head whose receipts go to a stream of the publisher.
    func permitted(_ head: CommandHead) -> CommandHead {
        var head = head
        if !StreamKeys.isReceipts(head.replyTo, of: self.name) { head.replyTo = StreamKeys.receipts(of: self.name) }
        return head
    }

    private static let code = "not_permitted"
}

/// Holds the rules of all publishers that have mailboxes of their own. Those of known publishers follow the configuration while the
/// dispatcher runs; one that has left it may publish for no app.
final class PublisherTable: Sendable {
    /// The publishers of the configuration, sorted.
    let configured: [PublisherName]
    /// The publishers whose mailboxes are read, sorted: also former ones, whose commands are refused with a receipt.
    let names: [PublisherName]
    private let rules: Mutex<[PublisherName: PublisherRules]>

    /// Creates the table of a configuration.
    ///
    /// - Parameter former: the publishers that have been configured before.
    init(_ settings: [PublisherName: PublisherSettings], former: [PublisherName] = []) {
        self.configured = settings.keys.sorted()
        self.names = Set(settings.keys).union(former).sorted()
        self.rules = Mutex(Self.rules(settings))
    }

    /// The rules of a publisher.
    subscript(name: PublisherName) -> PublisherRules {
        self.rules.withLock { $0[name] } ?? PublisherRules(name: name, apps: [])
    }

    /// Follows a changed configuration.
    func update(_ settings: [PublisherName: PublisherSettings]) {
        let rules = Self.rules(settings)
        self.rules.withLock { $0 = rules }
    }

    private static func rules(_ settings: [PublisherName: PublisherSettings]) -> [PublisherName: PublisherRules] {
        Dictionary(uniqueKeysWithValues: settings.map { ($0, PublisherRules(name: $0, apps: $1.apps)) })
    }
}
