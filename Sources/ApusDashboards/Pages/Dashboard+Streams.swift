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
        description: "The streams of commands, work, outcomes and registrations in Redis, and Redis itself.",
        variables: [Variable(label: "stream", family: Q.every[common: \.streams.length])],
        rows: [
            PanelRow("Commands", commands, wait, fanOut, clocks),
            PanelRow("Waiting", length, backlog, unreadAge, pending, pendingAge, deadLetters),
            PanelRow("Handling", read, acknowledged, claimed, malformed, vanished, replayed),
            PanelRow("Outcomes", batches, outcomes, applyDelay, receipts, clientEvents),
            PanelRow("Redis", redisCommands, redisErrors, redisDuration, redisConnected, readsStalled, partsMissing),
        ],
    )

    private static let chosen = Matcher.variable("stream")

    // MARK: Commands

    private static let commands = Panel.lines(
        "Commands",
        "Send commands read from the mailboxes, by result.",
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
        "Clock differences",
        "Negative latencies: the clock of a publisher is ahead of the dispatcher's.",
        .perSecond,
        width: 6,
        PanelQuery(Q.dispatcher[\.clockSkew].rate(), "negative"),
    )

    // MARK: Waiting

    private static let length = Panel.lines(
        "Length",
        "Entries in the streams, read or unread. For due: all entries that wait for their time.",
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
        "Time for which the oldest unread entry has been waiting.",
        .seconds,
        PanelQuery(Q.age(Q.every[common: \.streams.oldestUnread], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pending = Panel.lines(
        "Pending",
        "Entries that were read and are not yet finished.",
        .count,
        PanelQuery(Q.every[common: \.streams.pending].max(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let pendingAge = Panel.lines(
        "Age of the oldest pending",
        "Time since the entry was written. The plan of a send stays pending until the send ends.",
        .seconds,
        PanelQuery(Q.age(Q.every[common: \.streams.oldestPending], chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let deadLetters = Panel.lines(
        "Dead letters",
        "Entries that were set aside, by reason; see `apus dead list`.",
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
        "Entries taken over from consumers that stopped.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesClaimed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let malformed = Panel.lines(
        "Malformed",
        "Entries that are not a message of the schema.",
        .perSecond,
        PanelQuery(Q.every[common: \.streams.entriesMalformed].rate(chosen, by: ["stream"]), "{{stream}}"),
    )

    private static let vanished = Panel.lines(
        "Lost by Redis",
        "Entries that vanished before they were acknowledged, and streams or groups that had to be created again.",
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
        "Calls that were written again because another server answered, and calls that could not be kept for lack of room.",
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
        "Recipients with a final outcome, as the ledgers count them.",
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
        "Receipts written for publishers, their results at the webhook, and sends that were ended because their entries were lost.",
        .perSecond,
        width: 6,
        PanelQuery(Q.feedback[\.receipts].rate(by: ["kind"]), "{{kind}}"),
        PanelQuery(Q.feedback[\.webhookReceipts].rate(by: ["effect"]), "webhook {{effect}}"),
        PanelQuery(Q.feedback[\.sendsLost].rate(by: ["instance"]), "{{instance}} lost sends"),
    )

    private static let clientEvents = Panel.lines(
        "Client events",
        "Events that apps reported about notifications.",
        .perSecond,
        width: 24,
        PanelQuery(Q.feedback[\.events].rate(by: ["kind", "effect"]) + " > 0", "{{kind}} {{effect}}"),
    )

    // MARK: Redis

    private static let redisCommands = Panel.lines(
        "Commands",
        "Redis commands by command.",
        .perSecond,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commands].rate(by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisErrors = Panel.lines(
        "Failed commands",
        "Commands with an error, a late answer or no answer.",
        .perSecond,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commands].rate(.isNot("outcome", "ok"), by: ["outcome"]), "{{outcome}}"),
    )

    private static let redisDuration = Panel.lines(
        "Duration p99",
        "Time from sending a command to its answer, without blocking reads.",
        .seconds,
        width: 6,
        PanelQuery(Q.every[common: \.redis.commandDuration].quantile("0.99", by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let redisConnected = Panel.lines(
        "Connected",
        "Instances that are connected to Redis, and connections made again after a loss.",
        .count,
        width: 6,
        PanelQuery(Q.every[common: \.redis.connected].sum(by: ["job"]), "{{job}}"),
        PanelQuery(Q.every[common: \.redis.reconnects].rate(by: ["job"]), "{{job}} made again per second"),
    )

    private static let readsStalled = Panel.lines(
        "Not read",
        "Streams with room for entries whose reads had no good answer for ten seconds: the instance is not ready, and connects anew. "
            + "And shards of which a lane is not read because too many outcomes wait for feedback.",
        .count,
        width: 24,
        PanelQuery(Q.dispatcher[\.pausedShards].sum(by: ["lane"]), "{{lane}} waits for feedback"),
        PanelQuery(Q.every[common: \.streams.readsStalled].max(by: ["job", "instance"]), "{{job}} {{instance}}"),
    )

    private static let partsMissing = Panel.lines(
        "Away",
        "Queue shards whose Redis server does not answer while others do, and masters that lack Apus' functions: what lies there waits. "
            + "And records of devices that a service has no key for.",
        .count,
        width: 24,
        PanelQuery(
            Q.every[common: \.streams.unreachableShards].max(by: ["job", "instance"]),
            "shards, {{job}} {{instance}}"
        ),
        PanelQuery(
            Q.every[common: \.streams.serversWithoutFunctions].max(by: ["job"]),
            "masters without functions, {{job}}"
        ),
        PanelQuery(
            Q.every[common: \.refusedRecords].rate(by: ["job", "instance"]),
            "records without a key a second, {{job}} {{instance}}"
        ),
    )
}
