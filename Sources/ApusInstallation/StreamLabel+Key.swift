package import ApusCore
package import ApusMetrics
package import ApusStreams

extension StreamLabel {
    /// Creates the label of a stream from its key, as `StreamKeys` writes them: `{q7}in:express`; all other names are work streams.
    package init(streamKey key: String) {
        let name = key.utf8.firstIndex(of: UInt8(ascii: "}")).map { key[key.utf8.index(after: $0)...] } ?? ""
        self =
            switch name {
            case "in:express": .inExpress
            case "in:bulk": .inBulk
            case _ where name.hasPrefix("in:express:"): .inExpress
            case _ where name.hasPrefix("in:bulk:"): .inBulk
            case _ where name.hasPrefix("plan:"): .plan
            case "due": .due
            case "register": .register
            case "outcomes": .outcomes
            case "events": .events
            case "receipts": .receipts
            case "dead": .dead
            default: .work
            }
    }

    /// Returns the keys of one shard that count under this label.
    ///
    /// - Parameter publishers: the publishers that have mailboxes of their own.
    package func keys(_ keys: StreamKeys, routes: [RouteNumber], publishers: [PublisherName]) -> [String] {
        switch self {
        case .inExpress: keys.mailboxes(.express, publishers)
        case .inBulk: keys.mailboxes(.bulk, publishers)
        case .plan: routes.map { keys.plan($0) }
        case .work: routes.flatMap { route in Lane.allCases.map { keys.work(route, $0) } }
        case .due: [keys.due]
        case .register: [keys.register]
        case .outcomes: [keys.outcomes]
        case .events: [keys.events]
        case .receipts: [keys.receipts]
        case .dead: [keys.dead]
        }
    }
}
