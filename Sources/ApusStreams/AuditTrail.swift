package import ApusCore
internal import ApusRedis

/// Names an operator in the audit trail.
package struct Operator: Hashable, Sendable {
    /// An API key's name, or user and host of a shell.
    package var name: String
    /// The way in which it acts.
    package var source: AuditEntry.Source

    /// Creates a name.
    package init(_ name: String, through source: AuditEntry.Source) {
        self.name = name
        self.source = source
    }
}

/// Describes something that an operator did.
package struct AuditEntry: Hashable, Sendable {
    /// The way in which it was done.
    package enum Source: String, CaseIterable, Sendable {
        /// A command of `apus`.
        case commandLine = "cli"
        /// The HTTP API.
        case http
        /// The web console.
        case console
    }

    /// The entry's id in the trail, which begins with the time in milliseconds since 1970; empty before it was written.
    package var id = ""
    /// The operator's name.
    package var actor: String
    /// The way in which it was done.
    package var source: Source
    /// The action, such as "send.cancel".
    package var action: String
    /// The app that it concerns; empty when it concerns no single app.
    package var app: String
    /// The send, route, device or key that it was done to.
    package var object: String
    /// Further words, such as a rate.
    package var detail: String

    /// Creates an entry. Texts are cut at `StreamLimits.auditTextBytesMax`.
    package init(
        _ action: String,
        of object: String,
        app: String = "",
        detail: String = "",
        by someone: Operator,
    ) {
        let bytesMax = StreamLimits.auditTextBytesMax
        self.action = action.clipped(toBytes: bytesMax)
        self.object = object.clipped(toBytes: bytesMax)
        self.app = app.clipped(toBytes: bytesMax)
        self.detail = detail.clipped(toBytes: bytesMax)
        self.actor = someone.name.clipped(toBytes: bytesMax)
        self.source = someone.source
    }

    /// Creates an entry from the trail; nil when a later version wrote it.
    init?(id: String, fields: [(String, String)]) {
        let values = Dictionary(fields) { first, _ in first }
        guard let source = values["source"].flatMap({ Source(rawValue: $0) }), let action = values["action"] else {
            return nil
        }
        self.init(
            action,
            of: values["object"] ?? "",
            app: values["app"] ?? "",
            detail: values["detail"] ?? "",
            by: Operator(values["actor"] ?? "", through: source),
        )
        self.id = id
    }

    /// The time at which it was done, by Redis' clock; nil before it was written.
    package var at: UnixMilliseconds? { Int64(self.id.prefix { $0 != "-" }).map { UnixMilliseconds($0) } }

    /// The keys of its trail and, for that of an app, of the list of those. What programs do as often as they like, with an app's keys or by
    /// `apus send`, pushes out entries of its own app only.
    var keys: [String] {
        let isOfApp = self.source == .http || self.source == .commandLine && self.action == "send.publish"
        return isOfApp ? [StreamKeys.keyAudit(of: self.app), StreamKeys.keyAuditApps] : [StreamKeys.audit]
    }

    /// The entry as JSON.
    package var json: JSONObject {
        var object: JSONObject = ["id": .string(self.id)]
        if let at { object["at_ms"] = .integer(at.value) }
        object["actor"] = .string(self.actor)
        object["source"] = .string(self.source.rawValue)
        object["action"] = .string(self.action)
        object["app"] = .string(self.app)
        object["object"] = .string(self.object)
        object["detail"] = .string(self.detail)
        return object
    }
}

/// Keeps what operators did, and for each app what was done with its keys and sent by commands: append-only streams, bounded in length and
/// age.
package struct AuditTrail: Sendable {
    let access: StreamAccess

    /// The number of entries that one read takes, when few of them may be wanted.
    private static let entriesPerRead = 500

    /// Appends an entry, also at a full Redis.
    ///
    /// - Parameter patience: the time during which the client repeats the call; nil for the configuration's.
    package func record(_ entry: AuditEntry, patience: Duration? = nil) async throws {
        let call = RecordAuditCall(
            keys: entry.keys,
            actor: entry.actor,
            source: entry.source.rawValue,
            action: entry.action,
            app: entry.app,
            object: entry.object,
            detail: entry.detail,
        )
        let options = RedisClient.Options(isIdempotent: true, patience: patience)
        _ = try await self.access.client.call(call, on: HashTag(ofKey: entry.keys[0]), options: options)
    }

    /// Returns entries of all streams, newest first.
    ///
    /// - Parameters:
    ///   - count: the maximum of entries.
    ///   - app: the app that they concern; nil for all entries.
    ///   - object: what they were done to; nil for anything.
    ///   - before: the id of the entry before which to begin; nil for the end of the trail.
    package func newest(
        _ count: Int,
        app: String? = nil,
        object: String? = nil,
        before: String? = nil,
    ) async throws -> [AuditEntry] {
        let apps = if let app { [app] } else { try await self.apps() }
        let keys = [StreamKeys.audit] + apps.map { StreamKeys.keyAudit(of: $0) }
        var trails = keys.map { Reader(key: $0, before: before) }
        var found: [AuditEntry] = []
        while found.count < count {
            for index in trails.indices {
                try await trails[index].fill(from: self.access) {
                    (app == nil || $0.app == app) && (object == nil || $0.object == object)
                }
            }
            let readable = trails.indices.filter { !trails[$0].entries.isEmpty }
            guard let newest = readable.max(by: { trails[$0].position < trails[$1].position }) else { break }
            found.append(trails[newest].entries.removeFirst())
        }
        return found
    }

    /// Returns the apps that have a trail of their own.
    private func apps() async throws -> [String] {
        let list = StreamKeys.keyAuditApps
        let command = RedisCommand("ZRANGE", .text(list), 0, -1)
        return try await self.access.send(command, on: HashTag(ofKey: list)).elements().map { try $0.text() }
    }

    /// Reads the entries of one stream, newest first, part by part.
    private struct Reader {
        private let key: String
        private var next: String
        private var isAtEnd = false
        /// The entries that were read and are wanted.
        var entries: ArraySlice<AuditEntry> = []

        init(key: String, before: String?) {
            self.key = key
            self.next = before.map { "(\($0)" } ?? "+"
        }

        /// The place of the first entry in time.
        var position: (Int64, Int64) {
            let parts = (self.entries.first?.id ?? "").split(separator: "-").map { Int64($0) ?? 0 }
            return (parts.first ?? 0, parts.dropFirst().first ?? 0)
        }

        /// Reads on until there is an entry that is wanted, or no further one.
        mutating func fill(from access: StreamAccess, _ isWanted: (AuditEntry) -> Bool) async throws {
            while self.entries.isEmpty, !self.isAtEnd {
                let command = RedisCommand(
                    "XREVRANGE",
                    .text(self.key),
                    .text(self.next),
                    "-",
                    "COUNT",
                    .integer(AuditTrail.entriesPerRead),
                )
                let page = Array(try await access.send(command, on: HashTag(ofKey: self.key)).elements())
                for element in page {
                    let id = try element[0].text()
                    self.next = "(\(id)"
                    guard let entry = AuditEntry(id: id, fields: try element[1].pairs()), isWanted(entry) else {
                        continue
                    }
                    self.entries.append(entry)
                }
                self.isAtEnd = page.count < AuditTrail.entriesPerRead
            }
        }
    }
}

struct RecordAuditCall: FunctionCall {
    static let function = "apus2_record_audit"
    var keys: [String]
    var actor: String
    var source: String
    var action: String
    var app: String
    var object: String
    var detail: String

    func set(_ fields: inout CallFields) {
        fields.set("actor", self.actor)
        fields.set("source", self.source)
        fields.set("action", self.action)
        fields.set("app", self.app)
        fields.set("object", self.object)
        fields.set("detail", self.detail, default: "")
    }
}
