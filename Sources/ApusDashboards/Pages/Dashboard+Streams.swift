internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration

extension Dashboard {
    private typealias W = Words

    /// What waits where, and how Redis is doing.
    static let streams = Dashboard(
        name: "streams",
        title: "Streams",
        description: "Commands, work, outcomes and registrations on their way through Redis, and Redis itself.",
        variables: [Variable(label: "stream", family: W.every[common: \.streams.length])],
        rows: [
            PanelRow("Commands", commands, wait, fanOut, clocks),
            PanelRow("Waiting", length, backlog, unreadAge, pending, pendingAge, deadLetters),
            PanelRow("Handling", read, acknowledged, claimed, malformed, vanished, replayed),
            PanelRow("Outcomes", batches, outcomes, applyDelay, receipts, clientEvents),
            PanelRow("Redis", redisCommands, redisErrors, redisDuration, redisConnected, readsStalled),
        ],
    )

    private static let chosen = Matcher.variable("stream")

    // MARK: Commands

    private static let commands = Panel.lines(
        "Commands",
        "Send commands taken from the mailboxes, by what became of them.",
        .perSecond,
        width: 6,
        PanelQuery(W.dispatcher[\.commands].rate(by: ["result"]), "{{result}}"),
    )

    private static let wait = Panel.lines(
        "Queue wait",
        "From publication to reading from the mailbox.",
        .seconds,
        width: 6,
        PanelQuery(W.dispatcher[\.queueWait].quantile("0.5"), "p50"),
        PanelQuery(W.dispatcher[\.queueWait].quantile("0.99"), "p99"),
    )

    private static let fanOut = Panel.lines(
        "Audience",
        "Recipients of sends that were planned: half of the sends have no more than p50.",
        .count,
        width: 6,
        PanelQuery(W.dispatcher[\.fanOut].quantile("0.5"), "p50"),
        PanelQuery(W.dispatcher[\.fanOut].quantile("0.99"), "p99"),
    )

    private static let clocks = Panel.lines(
        "Clocks that disagree",
        "Latencies that came out negative: a publisher's clock is ahead of the dispatcher's.",
        .perSecond,
        width: 6,
        PanelQuery(W.dispatcher[\.clockSkew].rate(), "negative"),
    )

    // MARK: Waiting

    private static let length = Panel.lines(
        "Length",
        "Entries in the streams, read or not; of due, whatever waits for its time.",
        .count,
        PanelQuery(W.every[common: \.streams.length].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let backlog = Panel.lines(
        "Unread",
        "Entries that no consumer has read yet.",
        .count,
        PanelQuery(W.every[common: \.streams.backlog].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let unreadAge = Panel.lines(
        "Age of the oldest unread",
        "How long it has been waiting.",
        .seconds,
        PanelQuery(W.age(W.every[common: \.streams.oldestUnread], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pending = Panel.lines(
        "In hand",
        "Entries that were read and are not finished.",
        .count,
        PanelQuery(W.every[common: \.streams.pending].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pendingAge = Panel.lines(
        "Age of the oldest in hand",
        "Since it was written. A send to millions keeps its plan in hand for as long as it takes.",
        .seconds,
        PanelQuery(W.age(W.every[common: \.streams.oldestPending], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let deadLetters = Panel.lines(
        "Dead letters",
        "Entries that were put aside, by why; see `apus dead list`.",
        .perSecond,
        PanelQuery(
            W.every[common: \.streams.deadLetters].rate(chosen, by: ["stream", "reason"]),
            "{{stream}} {{reason}}",
        ),
    )

    // MARK: Handling

    private static let read = Panel.lines(
        "Read",
        "Entries read.",
        .perSecond,
        PanelQuery(W.every[common: \.streams.entriesRead].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let acknowledged = Panel.lines(
        "Finished",
        "Entries finished and acknowledged.",
        .perSecond,
        PanelQuery(W.every[common: \.streams.entriesAcknowledged].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let claimed = Panel.lines(
        "Taken over",
        "Entries taken over from consumers that went away.",
        .perSecond,
        PanelQuery(W.every[common: \.streams.entriesClaimed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let malformed = Panel.lines(
        "Not to be decoded",
        "Entries that are no message of the schema.",
        .perSecond,
        PanelQuery(W.every[common: \.streams.entriesMalformed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let vanished = Panel.lines(
        "Lost by Redis",
        "Entries that vanished before they were acknowledged, and streams or groups that had to be made again.",
        .perSecond,
        PanelQuery(W.dispatcher[\.entriesVanished].rate(), "dispatcher entries"),
        PanelQuery(W.feedback[\.entriesVanished].rate(), "feedback entries"),
        PanelQuery(W.registration[\.entriesVanished].rate(), "registration entries"),
        PanelQuery(W.dispatcher[\.groupsLost].rate(), "dispatcher groups"),
        PanelQuery(W.feedback[\.groupsLost].rate(), "feedback groups"),
        PanelQuery(W.registration[\.groupsLost].rate(), "registration groups"),
    )

    private static let replayed = Panel.lines(
        "After a failover",
        "Calls written again because another server answered, and calls that there was no room to keep for that.",
        .perSecond,
        PanelQuery(W.dispatcher[\.callsReplayed].rate(), "written again"),
        PanelQuery(W.dispatcher[\.replayCallsDropped].rate(), "not kept"),
    )

    // MARK: Outcomes

    private static let batches = Panel.lines(
        "Batches",
        "Batches of outcomes that feedback applied.",
        .perSecond,
        width: 6,
        PanelQuery(W.feedback[\.batches].rate(), "batches"),
    )

    private static let outcomes = Panel.lines(
        "Outcomes",
        "Recipients that ended, as ledgers count them.",
        .perSecond,
        width: 6,
        isStacked: true,
        PanelQuery(W.feedback[\.outcomes].rate(by: ["outcome"]), "{{outcome}}"),
    )

    private static let applyDelay = Panel.lines(
        "Feedback delay",
        "From a provider's answer to its effect on the device store.",
        .seconds,
        width: 6,
        PanelQuery(W.feedback[\.applyDelay].quantile("0.5"), "p50"),
        PanelQuery(W.feedback[\.applyDelay].quantile("0.99"), "p99"),
    )

    private static let receipts = Panel.lines(
        "Receipts",
        "Receipts written for publishers, what became of them at the webhook, and sends ended because nothing was left of them.",
        .perSecond,
        width: 6,
        PanelQuery(W.feedback[\.receipts].rate(by: ["kind"]), "{{kind}}"),
        PanelQuery(W.feedback[\.webhookReceipts].rate(by: ["effect"]), "webhook {{effect}}"),
        PanelQuery(W.feedback[\.sendsLost].rate(by: ["instance"]), "{{instance}} lost sends"),
    )

    private static let clientEvents = Panel.lines(
        "Client events",
        "What apps reported of notifications.",
        .perSecond,
        width: 24,
        PanelQuery(W.feedback[\.events].rate(by: ["kind", "effect"]) + " > 0", "{{kind}} {{effect}}"),
    )

    // MARK: Redis

    private static let redisCommands = Panel.lines(
        "Commands",
        "By command.",
        .perSecond,
        width: 6,
        PanelQuery(W.every[common: \.redis.commands].rate(by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisErrors = Panel.lines(
        "Commands not answered well",
        "Answered with an error, not in time, or not at all.",
        .perSecond,
        width: 6,
        PanelQuery(W.every[common: \.redis.commands].rate(.isNot("outcome", "ok"), by: ["outcome"]), "{{outcome}}"),
    )

    private static let redisDuration = Panel.lines(
        "Duration p99",
        "From sending a command to its answer, blocking reads excluded.",
        .seconds,
        width: 6,
        PanelQuery(W.every[common: \.redis.commandDuration].quantile("0.99", by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisConnected = Panel.lines(
        "Connected",
        "Instances that reach Redis, and connections made again after a loss.",
        .count,
        width: 6,
        PanelQuery(W.every[common: \.redis.connected].sum(by: ["job"]), "{{job}}"),
        PanelQuery(W.every[common: \.redis.reconnects].rate(by: ["job"]), "{{job}} made again per second"),
    )

    private static let readsStalled = Panel.lines(
        "Not read",
        "Streams with room for entries whose reads had no good answer for ten seconds: the instance is not ready, and connects anew.",
        .count,
        width: 24,
        PanelQuery(W.every[common: \.streams.readsStalled].max(by: ["job", "instance"]), "{{job}} {{instance}}"),
    )
}
