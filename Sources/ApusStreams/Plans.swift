package import ApusCore
package import ApusMessages
package import ApusRedis

/// Manages plans, which find the recipients of a send on a route, a step at a time.
package struct Plans: Sendable {
    let access: StreamAccess

    /// Holds one step of a route's plan.
    package struct Step: Sendable {
        /// The cursor that the plan must still have.
        package var expected: String
        /// The cursor after the step.
        package var next: String
        /// The units to append, all for the plan's route and one lane.
        package var units: [WorkUnit] = []
        /// The number of recipients that no unit carries, because their outcome is in `outcomes`.
        package var plannedBesides: UInt64 = 0
        /// The outcomes that come with this step. Its other fields also report the plan's end.
        package var outcomes: OutcomeBatch
        /// True when the plan has found its last recipient.
        package var isLast = false
        /// True when that is because the message has expired.
        package var isExpired = false

        /// Creates a step that appends nothing yet.
        package init(from expected: String, to next: String, outcomes: OutcomeBatch) {
            self.expected = expected
            self.next = next
            self.outcomes = outcomes
        }
    }

    /// The result of a step.
    package enum StepResult: Hashable, Sendable {
        /// The step is written.
        case ok
        /// Another owns this plan, so the caller stops.
        case lost
        /// Another step was written from that cursor, so the caller continues from this one.
        case moved(cursor: String)
        /// The route has enough units waiting, so the caller comes back later.
        case full
        /// The send, which has a rate of its own, has enough units waiting, so the caller comes back later.
        case paced
        /// An operator holds the send; its plan waits with its units.
        case paused
        /// The send was cancelled, so the plan has ended.
        case cancelled
    }

    /// Appends units and moves the cursor together, or does nothing.
    package func advance(
        _ step: Step,
        send: SendKey,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> StepResult {
        precondition(step.units.count <= StreamLimits.unitsPerStepMax)
        let work = step.units.first.map { StreamKeys.workName($0.route, $0.lane) } ?? ""
        precondition(step.units.allSatisfy { StreamKeys.workName($0.route, $0.lane) == work }, "units of one stream")
        precondition(step.isLast || !step.isExpired)
        var end = step.outcomes
        end.counts = []
        end.recipients = []
        let call = AdvancePlanCall(
            keys: [entry.stream, StreamKeys(tag: tag).send(send)],
            consumer: consumer,
            entry: entry.id,
            cursor: step.expected,
            nextCursor: step.next,
            planned: Int64(step.plannedBesides),
            outcomes: step.isLast || !step.outcomes.counts.isEmpty ? try step.outcomes.encode() : [],
            ending: step.isExpired ? "expired" : step.isLast ? "complete" : "",
            cancelledOutcomes: try end.encode(),
            work: work,
            units: try step.units.map { try $0.encode() },
            unitRecipients: step.units.map(\.recipients.count),
        )
        let answer = try await self.access.call(call, on: tag, about: entry.name) { answer in
            guard answer[0].string == "ok", let entries = try? answer.texts(from: 1) else { return nil }
            var repeated = call
            repeated.unitEntries = entries
            return repeated
        }
        switch try answer[0].text() {
        case "ok":
            if step.isLast { self.access.observer?.entriesAcknowledged(1, stream: entry.stream) }
            return .ok
        case "lost": return .lost
        case "moved": return .moved(cursor: try answer[1].text())
        case "full": return .full
        case "paced": return .paced
        case "paused":
            self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .paused
        case "cancelled":
            self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .cancelled
        default: throw StreamError.unexpected(function: AdvancePlanCall.function, answer: try answer[0].text())
        }
    }

    /// Describes the progress of a route's plan.
    package struct State: Hashable, Sendable {
        /// The cursor of the plan.
        package var cursor: String
        /// The routes that have a plan of this send, in order; the first also counts recipients that are on no route.
        package var routes: [RouteNumber]
    }

    /// Returns the progress of a route's plan; nil when the send has ended.
    package func state(send: SendKey, route: RouteNumber, tag: HashTag) async throws -> State? {
        let command = RedisCommand(
            "HMGET",
            .text(StreamKeys(tag: tag).send(send)),
            .text("cursor:\(route)"),
            "routes"
        )
        let answer = try await self.access.readCurrent(command, on: tag)
        guard !answer[0].isNull else { return nil }
        let routes = try answer[1].text().split(separator: ",").compactMap { UInt32($0).map { RouteNumber($0) } }
        return State(cursor: try answer[0].text(), routes: routes)
    }
}

struct AdvancePlanCall: OwnerCall, RestoringCall {
    static let function = "apus2_advance_plan"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: String
    var cursor: String
    var nextCursor: String
    var planned: Int64
    var outcomes: [UInt8]
    var ending: String
    var cancelledOutcomes: [UInt8]
    var work: String
    var units: [[UInt8]]
    var unitRecipients: [Int]
    /// The ids of the units from the answer, for repeating the call after a failover.
    var unitEntries: [String] = []

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry)
        fields.set("cursor", self.cursor)
        fields.set("next_cursor", self.nextCursor)
        fields.set("planned", self.planned, default: 0)
        fields.set("outcomes", CallBytes(self.outcomes), default: [])
        fields.set("ending", self.ending, default: "")
        fields.set("cancelled_outcomes", CallBytes(self.cancelledOutcomes))
        fields.set("work", self.work, default: "")
        fields.setBulk("units", self.units)
        fields.set("unit_recipients", self.unitRecipients, default: [])
        fields.set("unit_entries", self.unitEntries, default: [])
    }
}
