internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusService
internal import ApusStreams
internal import Logging

/// Counts what apps report of notifications, once each.
struct EventHandler: Sendable {
    let keys: StreamKeys
    let streams: SendStreams
    let consumer: StreamConsumer
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// Handles one entry. Throwing leaves it pending.
    func handle(_ entry: StreamEntry) async throws {
        let event: ClientEvent
        do throws(MessageError) { event = try ClientEvent.decode(entry.message) } catch {
            return try await self.bury(
                entry,
                problem: Problem(code: "malformed", field: error.field, detail: error.detail)
            )
        }
        guard entry.deliveries < StreamLimits.deliveriesMax else {
            let detail = "delivered \(entry.deliveries) times without being counted"
            return try await self.bury(entry, problem: Problem(code: "poison", detail: detail))
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

    private func bury(_ entry: StreamEntry, problem: Problem) async throws {
        let letter = DeadLetter(unusable: entry, problem, at: self.clock.now())
        self.logger.error("buried a client event", metadata: ["entry": "\(entry.origin)", "problem": "\(problem)"])
        _ = try await self.streams.deadLetters.write(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: letter,
            receipt: nil
        )
    }
}

/// What an app reported, as metrics have it.
package enum EventKindLabel: Int, ClosedMetricLabel, Hashable {
    /// The notification arrived.
    case received
    /// A person opened it.
    case opened
    /// A person swept it away.
    case dismissed
    /// A person chose an action.
    case action

    /// `kind`.
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

/// What became of an event.
package enum EventEffect: Int, ClosedMetricLabel, Hashable {
    /// It counts.
    case counted
    /// It was reported before.
    case known
    /// There was no room to remember it: not counted.
    case full

    /// `effect`.
    package static let labelNames = ["effect"]
}
