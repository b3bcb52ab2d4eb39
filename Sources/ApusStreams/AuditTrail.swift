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

/// Keeps what operators did: an append-only stream, bounded in length and age.
package struct AuditTrail: Sendable {
    let access: StreamAccess

    private static var tag: HashTag { HashTag(ofKey: StreamKeys.audit) }
    /// The number of entries that one read takes, when few of them may be wanted.
    private static let entriesPerRead = 500

    /// Appends an entry, also at a full Redis.
    package func record(_ entry: AuditEntry) async throws {
        let call = RecordAuditCall(
            keys: [StreamKeys.audit],
            actor: entry.actor,
            source: entry.source.rawValue,
            action: entry.action,
            app: entry.app,
            object: entry.object,
            detail: entry.detail,
        )
        _ = try await self.access.client.call(call, on: Self.tag)
    }

    /// Returns entries, newest first.
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
        var (found, next) = ([AuditEntry](), before.map { "(\($0)" } ?? "+")
        while true {
            let command = RedisCommand(
                "XREVRANGE",
                .text(StreamKeys.audit),
                .text(next),
                "-",
                "COUNT",
                .integer(Self.entriesPerRead),
            )
            let page = Array(try await self.access.send(command, on: Self.tag).elements())
            for element in page {
                next = "(\(try element[0].text())"
                guard let entry = AuditEntry(id: try element[0].text(), fields: try element[1].pairs()),
                    app == nil || entry.app == app, object == nil || entry.object == object
                else { continue }
                found.append(entry)
                if found.count == count { return found }
            }
            guard page.count == Self.entriesPerRead else { return found }
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
