package import ApusCore
package import ApusMessages
package import ApusRedis
internal import ApusTLS

/// Counts what apps have reported of a send's notifications.
package struct ClientEventCounts: Hashable, Sendable {
    /// Counts one kind of event at one provider.
    package struct Count: Hashable, Sendable {
        /// The provider of the notification; nil when it is unknown.
        package var provider: Provider?
        /// The kind of event.
        package var kind: ClientEvent.Kind
        /// The number of events.
        package var count: UInt64
    }

    /// The counts above zero, ordered by provider and kind.
    package private(set) var counts: [Count] = []

    /// Creates counts without any event.
    package init() {}

    /// Creates counts from the fields and values of the hash.
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

    /// Returns the name of a count in the hash.
    static func field(_ event: ClientEvent) -> String {
        "\(event.provider?.name ?? "unknown")/\(event.kind.name)"
    }

    /// Returns the number of events of a kind, over all providers.
    package func total(_ kind: ClientEvent.Kind) -> UInt64 {
        self.counts.reduce(0) { $0 + ($1.kind == kind ? $1.count : 0) }
    }

    /// Returns the share of accepted notifications that was opened; nil when none was accepted.
    package func openRate(accepted: UInt64) -> Double? {
        accepted == 0 ? nil : Double(self.total(.opened)) / Double(accepted)
    }

    /// Returns the counts as JSON: by kind, and by provider and kind.
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

/// Manages the events that apps report of notifications. Each is counted once, beside the send's ledger; direct sends have no ledger, but
/// have these counts.
package struct ClientEvents: Sendable {
    let access: StreamAccess

    /// Appends events of one send to the event stream of its home shard.
    ///
    /// - Returns: true when there was room for them.
    package func report(_ events: [ClientEvent], app: AppID, send: String) async throws -> Bool {
        let keys = self.access.home(app: app.text, send)
        let call = ReportEventsCall(
            keys: [keys.events],
            entriesMax: StreamLimits.eventEntriesMax,
            events: try events.map { try $0.encode() },
        )
        let answer = try await self.access.call(call, on: keys.tag)
        switch try answer[0].text() {
        case "new": return true
        case "full": return false
        default: throw StreamError.unexpected(function: ReportEventsCall.function, answer: try answer[0].text())
        }
    }

    /// The result of counting an event.
    package enum CountResult: String, Hashable, Sendable {
        /// The event was counted.
        case counted
        /// The device reported that id before.
        case known
        /// The event was not counted, because as many ids of the send, or of the device for that send, are remembered as may be.
        case full
        /// Another consumer owns the entry.
        case lost
    }

    /// Counts an event, once for each device and id, and acknowledges its entry: both or neither.
    package func count(
        _ event: ClientEvent,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> CountResult {
        func number(_ digest: some Sequence<UInt8>) -> UInt64 { digest.reduce(0) { $0 << 8 | UInt64($1) } }
        let id = SHA256.hash(Array(event.device.utf8), [0], Array(event.id.utf8))
        // All ids of a device are in one set, where they are counted.
        let device = SHA256.hash(utf8: event.device)
        let call = CountEventCall(
            keys: [entry.stream, StreamKeys(tag: tag).eventCounts(SendKey(app: event.app, id: event.send))],
            consumer: consumer,
            entry: entry.name,
            name: ClientEventCounts.field(event),
            idDigest: String(number(id.prefix(8)) >> 1),
            bucket: Int(number(device.dropFirst(8).prefix(2))) % StreamLimits.eventIDBuckets,
            idsMax: StreamLimits.eventIDsPerBucketMax,
            deviceDigest: String(number(device.prefix(8)) % 10_000_000_000_000_000),
            deviceIDsMax: StreamLimits.eventIDsPerDeviceMax,
            retentionMilliseconds: Int(StreamLimits.eventMemory / .milliseconds(1)),
        )
        let answer = try await self.access.call(call, on: tag)[0].text()
        guard let result = CountResult(rawValue: answer) else {
            throw StreamError.unexpected(function: CountEventCall.function, answer: answer)
        }
        if result != .lost { self.access.observer?.entriesAcknowledged(1, stream: entry.stream) }
        return result
    }

    /// Returns the counts of a send so far.
    package func counts(app: String, send: String) async throws -> ClientEventCounts {
        let keys = self.access.home(app: app, send)
        let command = RedisCommand("HGETALL", .text(keys.eventCounts(SendKey(app: app, id: send))))
        return ClientEventCounts(fields: try await self.access.send(command, on: keys.tag).pairs())
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
    var entry: EntryName
    var name: String
    var idDigest: String
    var bucket: Int
    var idsMax: Int
    var deviceDigest: String
    var deviceIDsMax: Int
    var retentionMilliseconds: Int

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry.id)
        fields.set("name", self.name)
        fields.set("id_digest", self.idDigest)
        fields.set("bucket", self.bucket)
        fields.set("ids_max", self.idsMax)
        fields.set("retention_ms", self.retentionMilliseconds)
        fields.set("device_digest", self.deviceDigest, default: "")
        fields.set("device_ids_max", self.deviceIDsMax, default: 0)
        fields.set("entry_digest", self.entry.digestText, default: "")
    }
}
