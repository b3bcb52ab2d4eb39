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
        guard entry.deliveries < StreamLimits.deliveriesMax else {
            let detail = "delivered \(entry.deliveries) times without being counted"
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

/// Names the kind of a reported event in metrics.
package enum EventKindLabel: Int, ClosedMetricLabel, Hashable {
    /// The notification arrived.
    case received
    /// A person opened it.
    case opened
    /// A person swept it away.
    case dismissed
    /// A person chose an action of the notification.
    case action

    /// The label `kind`.
    package static let labelNames = ["kind"]

    init(_ kind: ClientEvent.Kind) {
        switch kind {
        case .received: self = .received
        case .opened: self = .opened
        case .dismissed: self = .dismissed
        case .action: self = .action
        }
    }
}

/// Names the result of counting an event in metrics.
package enum EventEffect: Int, ClosedMetricLabel, Hashable {
    /// The event was counted.
    case counted
    /// The event was reported before.
    case known
    /// The event was not counted, because there was no room to remember it.
    case full

    /// The label `effect`.
    package static let labelNames = ["effect"]
}
