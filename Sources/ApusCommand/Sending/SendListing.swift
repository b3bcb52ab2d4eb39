package import ApusCore
package import ApusStreams
internal import ApusTerminal

/// Lists sends that have a ledger, of one app or of all, the last accepted first: `apus sends`.
package struct SendListing: Sendable {
    /// A send of an app.
    package struct Row: Hashable, Sendable {
        /// The app.
        package var app: String
        /// The send's status.
        package var status: SendStatus

        /// The send as JSON.
        package var json: JSONObject {
            var object: JSONObject = ["app": .string(self.app)]
            for member in self.status.json.members { object[member.name] = member.value }
            return object
        }
    }

    /// The sends, the last accepted first.
    package let rows: [Row]
    /// True when there are more sends than were asked for.
    package let hasMore: Bool

    /// Creates a list of those sends.
    package init(rows: [Row], hasMore: Bool) { (self.rows, self.hasMore) = (rows, hasMore) }

    /// Reads the sends.
    ///
    /// - Parameters:
    ///   - app: the app; nil for all that a dispatcher has or had.
    ///   - state: the state of the sends; nil for any.
    ///   - search: a part of their ids; empty for any. The whole id finds a direct send, too, which has no ledger.
    ///   - limit: the maximum of sends.
    package init(
        _ streams: SendStreams,
        of app: AppID?,
        state: SendLists.State?,
        search: String,
        limit: Int,
    ) async throws {
        let apps = if let app { [app] } else { try await streams.routes.apps().sorted().compactMap { try? AppID($0) } }
        let now = SystemClock().now()
        var (rows, hasMore) = ([Row](), false)
        for app in apps {
            let found = try await Self.rows(streams, of: app, state, search, limit: limit, now)
            rows += found.rows
            hasMore = hasMore || found.hasMore
        }
        rows.sort { ($0.status.acceptedAt?.value ?? .max, $0.app) > ($1.status.acceptedAt?.value ?? .max, $1.app) }
        self.init(rows: Array(rows.prefix(limit)), hasMore: hasMore || rows.count > limit)
    }

    private static func rows(
        _ streams: SendStreams,
        of app: AppID,
        _ state: SendLists.State?,
        _ search: String,
        limit: Int,
        _ now: UnixMilliseconds,
    ) async throws -> (rows: [Row], hasMore: Bool) {
        var rows: [Row] = []
        var cursor: SendListCursor?
        repeat {
            let page = try await streams.sendLists.page(
                of: app,
                limit: min(limit - rows.count, StreamLimits.sendsPerPageMax),
                from: cursor,
                state: state,
                search: search,
            )
            rows += page.rows.map { row in
                Row(app: app.text, status: SendStatus(send: row.send, ledger: row.ledger, now: now))
            }
            cursor = page.next
        } while cursor != nil && rows.count < limit
        if !search.isEmpty, state == nil, !rows.contains(where: { $0.status.send == search }),
            let direct = try await streams.sendLists.direct(search, of: app, now: now)
        {
            rows.append(Row(app: app.text, status: direct))
        }
        return (rows, cursor != nil)
    }

    /// The list as JSON.
    package var json: JSONObject {
        ["sends": .array(self.rows.map { .object($0.json) }), "more": .bool(self.hasMore)]
    }

    /// The list as lines; none when there are no sends.
    package var lines: [String] {
        guard !self.rows.isEmpty else { return [] }
        var table = TextTable(["SEND", "APP", "STATE", "ACCEPTED", ">RECIPIENTS", ">OPEN", ">RATE/S"])
        for row in self.rows {
            let status = row.status
            table.add([
                status.send, row.app, status.phase.name, status.acceptedAt?.timestamp ?? "",
                NumberText.grouped(status.planned), NumberText.grouped(status.total(.open)),
                status.ratePerSecond == 0 ? "" : NumberText.grouped(status.ratePerSecond),
            ])
        }
        return table.lines
    }
}
