internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration

extension Dashboard {
    private typealias Q = Queries

    /// The streams and their backlogs, and the state of Redis.
    static let streams = Dashboard(
        name: "streams",
        title: "Streams",
        description: "Commands, work, outcomes and registrations on their way through Redis, and Redis itself.",
        variables: [Variable(label: "stream", family: Q.every[common: \.streams.length])],
        rows: [
            PanelRow("Commands", commands, wait, fanOut, clocks),
            PanelRow("Waiting", length, backlog, unreadAge, pending, pendingAge, deadLetters),
            PanelRow("Handling", read, acknowledged, claimed, malformed, vanished, replayed),
            PanelRow("Outcomes", batches, outcomes, applyDelay, receipts, clientEvents),
            PanelRow("Redis", redisCommands, redisErrors, redisDuration, redisConnected),
        ],
    )

    private static let chosen = Matcher.variable("stream")

    // MARK: Commands

    private static let commands = Panel.lines(
        "Commands",
        "Send commands taken from the mailboxes, by what became of them.",
        .perSecond,
        width: 6,
        PanelQuery(Q.dispatcher[\.commands].rate(by: ["result"]), "{{result}}"),
    )

    private static let wait = Panel.lines(
        "Queue wait",
        "From publication to reading from the mailbox.",
        .seconds,
        width: 6,
        PanelQuery(Q.dispatcher[\.queueWait].quantile("0.5"), "p50"),
        PanelQuery(Q.dispatcher[\.queueWait].quantile("0.99"), "p99"),
    )

    private static let fanOut = Panel.lines(
        "Audience",
        "Recipients of sends that were planned: half of the sends have no more than p50.",
        .count,
        width: 6,
        PanelQuery(Q.dispatcher[\.fanOut].quantile("0.5"), "p50"),
        PanelQuery(Q.dispatcher[\.fanOut].quantile("0.99"), "p99"),
    )

    private static let clocks = Panel.lines(
        "Clocks that disagree",
        "Latencies that came out negative: a publisher's clock is ahead of the dispatcher's.",
        .perSecond,
        width: 6,
        PanelQuery(Q.dispatcher[\.clockSkew].rate(), "negative"),
    )

    // MARK: Waiting

    private static let length = Panel.lines(
        "Length",
        "Entries in the streams, read or not; of due, whatever waits for its time.",
        .count,
        PanelQuery(Q.every[common: \.streams.length].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let backlog = Panel.lines(
        "Unread",
        "Entries that no consumer has read yet.",
        .count,
        PanelQuery(Q.every[common: \.streams.backlog].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let unreadAge = Panel.lines(
        "Age of the oldest unread",
        "How long it has been waiting.",
        .seconds,
        PanelQuery(Q.age(Q.every[common: \.streams.oldestUnread], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pending = Panel.lines(
        "In hand",
        "Entries that were read and are not finished.",
        .count,
        PanelQuery(Q.every[common: \.streams.pending].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pendingAge = Panel.lines(
        "Age of the oldest in hand",
        "Since it was written. A send to millions keeps its plan in hand for as long as it takes.",
        .seconds,
        PanelQuery(Q.age(Q.every[common: \.streams.oldestPending], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let deadLetters = Panel.lines(
        "Dead letters",
        "Entries that were put aside, by why; see `apus dead list`.",
        .perSecond,
        PanelQuery(
            Q.every[common: \.streams.deadLetters].rate(chosen, by: ["stream", "reason"]),
            "{{stream}} {{reason}}",
        ),
    )

    // MARK: Handling

    private static let read = Panel.lines(
        "Read",
        "Entries read.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesRead].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let acknowledged = Panel.lines(
        "Finished",
        "Entries finished and acknowledged.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesAcknowledged].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let claimed = Panel.lines(
        "Taken over",
        "Entries taken over from consumers that went away.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesClaimed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let malformed = Panel.lines(
        "Not to be decoded",
        "Entries that are no message of the schema.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesMalformed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let vanished = Panel.lines(
        "Lost by Redis",
        "Entries that vanished before they were acknowledged, and streams or groups that had to be made again.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.entriesVanished].rate(), "dispatcher entries"),
        PanelQuery(Q.feedback[\.entriesVanished].rate(), "feedback entries"),
        PanelQuery(Q.registration[\.entriesVanished].rate(), "registration entries"),
        PanelQuery(Q.dispatcher[\.groupsLost].rate(), "dispatcher groups"),
        PanelQuery(Q.feedback[\.groupsLost].rate(), "feedback groups"),
        PanelQuery(Q.registration[\.groupsLost].rate(), "registration groups"),
    )

    private static let replayed = Panel.lines(
        "After a failover",
        "Calls written again because another server answered, and calls that there was no room to keep for that.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.callsReplayed].rate(), "written again"),
        PanelQuery(Q.dispatcher[\.replayCallsDropped].rate(), "not kept"),
    )

    // MARK: Outcomes

    private static let batches = Panel.lines(
        "Batches",
        "Batches of outcomes that feedback applied.",
        .perSecond,
        width: 6,
        PanelQuery(Q.feedback[\.batches].rate(), "batches"),
    )

    private static let outcomes = Panel.lines(
        "Outcomes",
        "Recipients that ended, as ledgers count them.",
        .perSecond,
        width: 6,
        isStacked: true,
        PanelQuery(Q.feedback[\.outcomes].rate(by: ["outcome"]), "{{outcome}}"),
    )

    private static let applyDelay = Panel.lines(
        "Feedback delay",
        "From a provider's answer to its effect on the device store.",
        .seconds,
        width: 6,
        PanelQuery(Q.feedback[\.applyDelay].quantile("0.5"), "p50"),
        PanelQuery(Q.feedback[\.applyDelay].quantile("0.99"), "p99"),
    )

    private static let receipts = Panel.lines(
        "Receipts",
        "Receipts written for publishers, what became of them at the webhook, and sends ended because nothing was left of them.",
        .perSecond,
        width: 6,
        PanelQuery(Q.feedback[\.receipts].rate(by: ["kind"]), "{{kind}}"),
        PanelQuery(Q.feedback[\.webhookReceipts].rate(by: ["effect"]), "webhook {{effect}}"),
        PanelQuery(Q.feedback[\.sendsLost].rate(by: ["instance"]), "{{instance}} lost sends"),
    )

    private static let clientEvents = Panel.lines(
        "Client events",
        "What apps reported of notifications.",
        .perSecond,
        width: 24,
        PanelQuery(Q.feedback[\.events].rate(by: ["kind", "effect"]) + " > 0", "{{kind}} {{effect}}"),
    )

    // MARK: Redis

    private static let redisCommands = Panel.lines(
        "Commands",
        "By command.",
        .perSecond,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commands].rate(by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisErrors = Panel.lines(
        "Commands not answered well",
        "Answered with an error, not in time, or not at all.",
        .perSecond,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commands].rate(.isNot("outcome", "ok"), by: ["outcome"]), "{{outcome}}"),
    )

    private static let redisDuration = Panel.lines(
        "Duration p99",
        "From sending a command to its answer, blocking reads excluded.",
        .seconds,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commandDuration].quantile("0.99", by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisConnected = Panel.lines(
        "Connected",
        "Instances that reach Redis, and connections made again after a loss.",
        .count,
        width: 6,
        PanelQuery(Q.every[common: \.redis.connected].sum(by: ["job"]), "{{job}}"),
        PanelQuery(Q.every[common: \.redis.reconnects].rate(by: ["job"]), "{{job}} made again per second"),
    )
}
