package import ApusCore
package import ApusInstallation
package import ApusStore
internal import ApusTerminal

/// Reports for `apus audience` how many devices an expression matches, route by route, and the cost of finding them.
package struct AudienceReport: Sendable {
    /// The result for one realm of the app.
    package struct Row: Hashable, Sendable {
        /// The realm.
        package let realm: Realm
        /// True when topics alone decide in the realm.
        package let isExact: Bool
        /// The counts.
        package let size: AudienceSize
    }

    /// The expression as it was parsed, from left to right.
    package let expression: String
    /// The results of the realms, in order.
    package let rows: [Row]
    /// True when records were read.
    private let hasRead: Bool

    /// Counts an audience.
    ///
    /// - Parameters:
    ///   - text: the text of the expression.
    ///   - readsRecords: true to read records where topics alone do not decide.
    /// - Throws: `CommandFailure` when the text is not an expression.
    package static func run(
        _ text: String,
        app: AppID,
        of installation: Installation,
        now: UnixMilliseconds,
        readsRecords: Bool,
    ) async throws -> AudienceReport {
        let expression: AudienceExpression
        do throws(AudienceError) {
            expression = try AudienceExpression(parsing: text)
        } catch {
            throw CommandFailure(Self.refusal(text, error))
        }
        let audience = try await installation.store.audience(app, expression, now: now)
        var rows: [Row] = []
        for realm in Realm.allCases {
            let form = audience[realm]
            let size = try await installation.store.size(app, form, readsRecords: readsRecords)
            rows.append(Row(realm: realm, isExact: form.isExact, size: size))
        }
        return AudienceReport(expression: expression.text, rows: rows, hasRead: readsRecords)
    }

    /// Returns the error message, with a mark under the place.
    private static func refusal(_ text: String, _ error: AudienceError) -> String {
        let before = String(decoding: text.utf8.prefix(error.offset), as: UTF8.self)
        guard !text.contains("\n") else { return error.description }
        return "\(error)\n  \(text)\n  \(String(repeating: " ", count: before.count))^"
    }

    /// The number of all devices; nil when records would have to be read.
    package var total: Int? {
        self.rows.reduce(0) { sum, row in sum.flatMap { sum in row.size.matching.map { $0 + sum } } }
    }

    /// The report as JSON.
    package var json: JSONObject {
        let routes = self.rows.map { row -> JSONValue in
            [
                "route": .string(row.realm.name), "exact_from_topics": .bool(row.isExact),
                "devices": row.size.matching.map { JSONValue.integer($0) } ?? .null,
                "candidates": .integer(row.size.candidates),
                "postings": .integer(row.size.postings), "records": .integer(row.size.records),
            ]
        }
        return [
            "expression": .string(self.expression), "devices": self.total.map { JSONValue.integer($0) } ?? .null,
            "routes": .array(routes),
        ]
    }

    /// The report as lines.
    package var lines: [String] {
        var table = TextTable(["ROUTE", ">DEVICES", ">POSTINGS", self.hasRead ? ">RECORDS READ" : ">RECORDS TO READ"])
        for row in self.rows where row.size.candidates > 0 {
            let size = row.size
            let devices = size.matching.map { NumberText.grouped($0) } ?? "up to \(NumberText.grouped(size.candidates))"
            table.add([row.realm.name, devices, NumberText.grouped(size.postings), NumberText.grouped(size.records)])
        }
        let most = self.rows.reduce(0) { $0 + $1.size.candidates }
        let total = self.total.map { NumberText.grouped($0) } ?? "up to \(NumberText.grouped(most))"
        return [self.expression] + (table.isEmpty ? [] : table.lines) + ["\(total) devices"]
    }
}
