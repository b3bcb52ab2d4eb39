internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import HTTPTypes

/// Answers `POST …/devices/{device}/events`, where apps report events of notifications. The events are appended to the stream of each
/// send's home shard; their reader counts an id once, so an app may repeat a report until it is answered.
struct EventAPI: Sendable {
    let streams: SendStreams
    let clock: any WallClock

    /// Stores the events of a report, or says when to report all of them again.
    func report(_ call: APICall, _ devices: DeviceAPI) async throws -> APIResponse {
        let device = try call.device()
        _ = try call.request.contentType([.json])
        var events = try EventsBody.read(call.request.body, app: call.app, device: device, now: self.clock.now())
        guard let stored = try await devices.visible(device, to: call) else { throw DeviceAPI.missing }
        for index in events.indices { events[index].provider = stored.realm.provider }
        do {
            for (send, part) in Dictionary(grouping: events, by: \.send).sorted(by: { $0.key < $1.key }) {
                guard try await self.streams.events.report(part, app: call.app, send: send) else {
                    let detail = "too many events wait"
                    throw ProblemDetails.unavailable(detail, retryAfterSeconds: 30, cause: detail)
                }
            }
        } catch let error as RedisError {
            throw ProblemDetails.unavailable("the streams cannot be reached", retryAfterSeconds: 2, cause: "\(error)")
        }
        return .json(.accepted, ["events": .integer(events.count)])
    }
}

/// Reads a report. It is pure.
enum EventsBody {
    /// Returns the events of `{"events": [{"id", "send", "kind", "action", "at_ms"}]}` without those that are too old to count: a phone that was
    /// offline for long would repeat a report that is refused.
    static func read(
        _ bytes: [UInt8],
        app: AppID,
        device: DeviceID,
        now: UnixMilliseconds,
    ) throws(ProblemDetails) -> [ClientEvent] {
        var reader = MemberReader(try RegistrationBody.object(bytes))
        if !reader.has("events") { reader.note("events", "must be given") }
        let events = reader.elements("events", countMax: APILimits.eventsMax) { reader in
            Self.event(&reader, app: app, device: device, now: now)
        }
        try reader.check()
        return events.compactMap(\.self)
    }

    private static func event(
        _ reader: inout MemberReader,
        app: AppID,
        device: DeviceID,
        now: UnixMilliseconds,
    ) -> ClientEvent? {
        for name in ["id", "send", "kind"] where !reader.has(name) { reader.note(name, "must be given") }
        let kind = reader.word("kind", ClientEvent.Kind.allCases, SnakeCase.name)
        let id = reader.text("id") ?? ""
        if reader.has("id"), !(1...Limits.nameBytesMax).contains(id.utf8.count) || id.utf8.contains(0) {
            reader.note("id", "must have 1 to \(Limits.nameBytesMax) bytes, and no NUL")
        }
        let send = reader.text("send") ?? ""
        if reader.has("send") {
            do throws(IdentifierError) { _ = try SendID(send) } catch { reader.note("send", "must be \(error.rule)") }
        }
        let action = reader.text("action") ?? ""
        if action.utf8.count > Limits.nameBytesMax || action.utf8.contains(0) {
            reader.note("action", "must have at most \(Limits.nameBytesMax) bytes, and no NUL")
        }
        // Phones' clocks may be wrong: a time in the future is replaced by the present.
        let time = min(reader.time("at_ms") ?? now, now)
        let isOld = now.milliseconds(since: time) > Int64(APILimits.eventAge / .milliseconds(1))
        guard let kind, !reader.hasMistakes, !isOld else { return nil }
        var event = ClientEvent(id: id, app: app.text, device: device.text, send: send, kind: kind, at: time)
        event.action = action
        return event
    }
}
