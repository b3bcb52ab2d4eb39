package import ApusCore
package import ApusMessages
package import ApusRedis
internal import ApusTLS

/// Counts of what apps reported of a send's notifications.
package struct ClientEventCounts: Hashable, Sendable {
    /// How often something happened, by provider; nil: unknown.
    package struct Count: Hashable, Sendable {
        /// Through whom the notification came.
        package var provider: Provider?
        /// What happened.
        package var kind: ClientEvent.Kind
        /// How often.
        package var count: UInt64
    }

    /// By provider and kind, in that order; only what happened.
    package private(set) var counts: [Count] = []

    /// Nothing was reported.
    package init() {}

    /// From the fields and values of the hash.
    init(fields: [(String, String)]) {
        for (name, value) in fields {
            let parts = name.split(separator: "/")
            guard parts.count == 2, let kind = ClientEvent.Kind.allCases.first(where: { $0.name == parts[1] }),
                let count = UInt64(value)
            else { continue }
            self.counts.append(Count(provider: Provider(name: parts[0]), kind: kind, count: count))
        }
        self.counts.sort {
            ($0.provider?.rawValue ?? 0, $0.kind.rawValue) < ($1.provider?.rawValue ?? 0, $1.kind.rawValue)
        }
    }

    /// The name of a count in the hash.
    static func field(_ event: ClientEvent) -> String {
        "\(event.provider?.name ?? "unknown")/\(event.kind.name)"
    }

    /// How often it happened, over all providers.
    package func total(_ kind: ClientEvent.Kind) -> UInt64 {
        self.counts.reduce(0) { $0 + ($1.kind == kind ? $1.count : 0) }
    }

    /// The share of the accepted that was opened; nil: nothing was accepted.
    package func openRate(accepted: UInt64) -> Double? {
        accepted == 0 ? nil : Double(self.total(.opened)) / Double(accepted)
    }

    /// As JSON: by kind, and by provider and kind.
    package var json: JSONObject {
        var json = JSONObject()
        for kind in ClientEvent.Kind.allCases where self.total(kind) > 0 {
            json[kind.name] = .integer(self.total(kind))
        }
        let providers = self.counts.map { count -> JSONValue in
            [
                "provider": count.provider.map { JSONValue.string($0.name) } ?? .null, "kind": .string(count.kind.name),
                "count": .integer(count.count),
            ]
        }
        json["by_provider"] = .array(providers)
        return json
    }
}

extension ClientEvent.Kind {
    /// The name in keys, metrics and JSON.
    package var name: String {
        switch self {
        case .received: "received"
        case .opened: "opened"
        case .dismissed: "dismissed"
        case .action: "action"
        }
    }
}

/// Events that apps report of notifications, counted once each beside the send's ledger. Direct sends have no ledger, but these counts.
package struct ClientEvents: Sendable {
    let access: StreamAccess

    /// Appends events of one send to the events of its home.
    ///
    /// - Returns: whether there was room.
    package func report(_ events: [ClientEvent], app: AppID, send: String) async throws -> Bool {
        let keys = self.access.home(app: app.text, send)
        let call = ReportEventsCall(
            keys: [keys.events],
            entriesMax: StreamLimits.eventEntriesMax,
            events: try events.map { try $0.encode() },
        )
        let answer = try await self.access.call(call, on: keys.tag)
        switch answer[0].text {
        case "new": return true
        case "full": return false
        default: throw StreamError.unexpected(function: ReportEventsCall.function, answer: answer[0].text)
        }
    }

    /// What became of an event.
    package enum CountResult: String, Hashable, Sendable {
        /// It counts.
        case counted
        /// The device reported that id before.
        case known
        /// So many ids of the send were remembered that this one could not be: not counted.
        case full
        /// Another owns the entry.
        case lost
    }

    /// Counts an event, once for each device and id, and acknowledges its entry: both or neither.
    package func count(
        _ event: ClientEvent,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> CountResult {
        let digest = SHA256.hash(Array(event.device.utf8), [0], Array(event.id.utf8))
        let number = digest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } >> 1
        let call = CountEventCall(
            keys: [entry.stream, StreamKeys(tag: tag).eventCounts(SendKey(app: event.app, id: event.send))],
            consumer: consumer,
            entry: entry.id,
            name: ClientEventCounts.field(event),
            idDigest: String(number),
            bucket: digest.dropFirst(8).prefix(2).reduce(0) { $0 << 8 | Int($1) } % StreamLimits.eventIDBuckets,
            idsMax: StreamLimits.eventIDsPerBucketMax,
            retentionMilliseconds: Int(StreamLimits.eventMemory / .milliseconds(1)),
        )
        let answer = try await self.access.call(call, on: tag)[0].text
        guard let result = CountResult(rawValue: answer) else {
            throw StreamError.unexpected(function: CountEventCall.function, answer: answer)
        }
        if result != .lost { self.access.observer?.entriesAcknowledged(1, stream: entry.stream) }
        return result
    }

    /// What was reported of a send so far.
    package func counts(app: String, send: String) async throws -> ClientEventCounts {
        let keys = self.access.home(app: app, send)
        let command = RedisCommand("HGETALL", .text(keys.eventCounts(SendKey(app: app, id: send))))
        return ClientEventCounts(fields: try await self.access.send(command, on: keys.tag).pairs)
    }
}

struct ReportEventsCall: FunctionCall {
    static let function = "apus2_report_events"
    var keys: [String]
    var entriesMax: Int
    var events: [[UInt8]]

    func set(_ fields: inout CallFields) {
        fields.set("entries_max", self.entriesMax)
        fields.setBulk("events", self.events)
    }
}

struct CountEventCall: FunctionCall {
    static let function = "apus2_count_event"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: String
    var name: String
    var idDigest: String
    var bucket: Int
    var idsMax: Int
    var retentionMilliseconds: Int

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry)
        fields.set("name", self.name)
        fields.set("id_digest", self.idDigest)
        fields.set("bucket", self.bucket)
        fields.set("ids_max", self.idsMax)
        fields.set("retention_ms", self.retentionMilliseconds)
    }
}
