internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusService
internal import ApusStreams
internal import Logging

/// Counts the events that apps report of notifications, once each.
struct EventHandler: Sendable {
    let keys: StreamKeys
    let streams: SendStreams
    let consumer: StreamConsumer
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// Handles one entry. An entry whose handling throws stays pending.
    func handle(_ entry: StreamEntry) async throws {
        let event: ClientEvent
        do throws(MessageError) { event = try ClientEvent.decode(entry.message) } catch {
            return try await self.writeDeadLetter(
                entry,
                problem: Problem(code: "malformed", field: error.field, detail: error.detail)
            )
        }
        if let detail = entry.burial {
            return try await self.writeDeadLetter(entry, problem: Problem(code: "poison", detail: detail))
        }
        let result = try await self.streams.events.count(event, entry: entry, by: self.consumer, tag: self.keys.tag)
        let effect: EventEffect
        switch result {
        case .counted: effect = .counted
        case .known: effect = .known
        case .full: effect = .full
        case .lost: return
        }
        self.shared.add(to: self.metrics.events[EventKindLabel(event.kind), effect])
    }

    private func writeDeadLetter(_ entry: StreamEntry, problem: Problem) async throws {
        try await self.streams.deadLetters.write(
            unusable: entry,
            "a client event",
            problem,
            by: self.consumer,
            tag: self.keys.tag,
            at: self.clock.now(),
            self.logger,
        )
    }
}
