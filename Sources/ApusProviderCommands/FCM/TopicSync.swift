internal import ApusCommand
package import ApusCore
package import ApusFCM
package import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal

/// Makes FCM's topic of a name what our topic of that name is, so that a send to it reaches all members with one message: members are
/// subscribed, and all other devices of the app are unsubscribed, because FCM does not list a topic's members. A device that was deleted
/// here is not known any more: its app unsubscribes.
///
/// Devices are read partition by partition, so that memory does not grow with their number. App instances that FCM calls
/// gone are pruned, and can be brought back, as after an answer to a message. Once they are more of the answers than dead tokens may be of a
/// route's, the project must be the wrong one, and those that follow are kept.
///
/// Temporary refusals are retried after growing waits, during which nothing else is requested: a project may make 3,000
/// changes a second (https://firebase.google.com/docs/cloud-messaging/topic-messaging). After a number of rounds
/// without progress, the remaining members are requested once each and reported.
package struct TopicSync {
    /// The result of a synchronisation.
    package struct Report: Hashable, Sendable {
        /// The number of devices with the topic.
        package var members = 0
        /// The number of those that are subscribed now.
        package var subscribed = 0
        /// The number of devices without the topic.
        package var others = 0
        /// The number of those that are not subscribed now.
        package var unsubscribed = 0
        /// The number of both that FCM calls gone. They are pruned, unless they were registered again meanwhile or are kept.
        package var gone = 0
        /// The number of those that are kept, because too many of the answers were of that kind.
        package var kept = 0
        /// The number of both that should be retried later.
        package var later = 0
        /// The number of both that were refused: bad tokens, too many topics, missing permissions.
        package var refused = 0
        /// The reason of the last refusal.
        package var word = ""

        /// Creates an empty report.
        package init() {}

        /// Counts a result.
        package mutating func add(_ outcome: FCMTopicOutcome, of verb: FCMTopicChange.Verb) {
            let isDone = outcome == .done ? 1 : 0
            switch verb {
            case .subscribe: (self.members, self.subscribed) = (self.members + 1, self.subscribed + isDone)
            case .unsubscribe: (self.others, self.unsubscribed) = (self.others + 1, self.unsubscribed + isDone)
            }
            switch outcome {
            case .done: break
            case .gone: self.gone += 1
            case .later: self.later += 1
            case .badToken: self.refuse("INVALID_ARGUMENT")
            case .tooManyTopics: self.refuse("TOO_MANY_TOPICS")
            case .refused(let word): self.refuse(word)
            }
        }

        /// Returns true when so many were called gone that the mistake must be ours.
        func isSuspicious(by rules: GuardRules) -> Bool {
            let answers = self.subscribed + self.unsubscribed + self.gone
            return self.gone >= rules.tokensMin && self.gone * 100 > answers * rules.deadPercentMax
        }

        private mutating func refuse(_ word: String) {
            self.refused += 1
            self.word = word
        }
    }

    private struct Member {
        let reference: DeviceReference
        let registeredAt: UnixMilliseconds
        let token: [UInt8]
    }

    /// Removes app instances that FCM calls gone.
    private struct Pruning {
        let store: DeviceStore
        let rules: GuardRules
        let undo: DeviceStore.UndoRules?
        let history: DeviceStore.HistoryRules?

        /// Removes a device, unless it was registered again after it was read: no clock is asked.
        func prune(_ member: Member, _ route: Route) async throws {
            var event = HistoryEvent(.pruned, at: SystemClock().now(), provider: route.provider)
            event.reason = .unregistered
            _ = try await self.store.prune(
                route,
                member.reference,
                tokenDigest: DeviceToken.digest(member.token),
                asOf: member.registeredAt,
                undo: self.undo,
                event: self.history.map { DeviceStore.RemovalEvent(event, $0) },
            )
        }
    }

    private let access: ProviderAccess
    private let installation: Installation
    private let route: Route
    private let topic: TopicName
    private let interface: ProviderAccess.TopicInterface
    private let onlySubscribes: Bool
    /// Waits for the given milliseconds.
    private let wait: (Int64) async throws -> Void

    /// Creates the synchronisation of a topic.
    ///
    /// - Parameter onlySubscribes: true to leave devices without the topic as they are.
    package init(
        _ access: ProviderAccess,
        _ installation: Installation,
        app: AppID,
        topic: TopicName,
        by interface: ProviderAccess.TopicInterface,
        onlySubscribes: Bool = false,
        wait: @escaping (Int64) async throws -> Void = { try await Task.sleep(for: .milliseconds($0)) },
    ) {
        self.access = access
        self.installation = installation
        self.route = Route(app: app, provider: .fcm, environment: .production)
        self.topic = topic
        self.interface = interface
        self.onlySubscribes = onlySubscribes
        self.wait = wait
    }

    /// Synchronises the topic. It may be repeated.
    package func run() async throws -> Report {
        let source = self.access.source
        let rules = try ConfigurationAccess.guardRules(in: source)
        let (undo, history) = (try ConfigurationAccess.undo(in: source), try ConfigurationAccess.history(in: source))
        return try await self.installation.withGuardedStore { store in
            try await self.run(Pruning(store: store, rules: rules, undo: undo, history: history))
        }
    }

    private func run(_ pruning: Pruning) async throws -> Report {
        let store = self.installation.store
        let number = try await store.topicNumber(self.route.app, self.topic)
        let inside = number.map { TopicExpression.topic($0) } ?? .nobody
        var parts = [(FCMTopicChange.Verb.subscribe, inside)]
        if !self.onlySubscribes { parts.append((.unsubscribe, .not(inside))) }
        return try await self.access.withTopics(by: self.interface) { client in
            var report = Report()
            // The number of consecutive rounds without progress.
            var failures: UInt32 = 0
            for (verb, audience) in parts {
                var waiting: [Member] = []
                for partition in 0..<self.installation.keyspace.devicePartitions {
                    let chunks = try await store.chunkCount(self.route, partition)
                    guard chunks > 0 else { continue }
                    let sets = try await store.audience(self.route, partition, chunks: 0..<chunks, audience)
                    for (chunk, set) in sets.enumerated() where !set.isEmpty {
                        waiting += try await self.members(partition, chunk, set.ordinals)
                        guard waiting.count >= InstanceIDTopics.tokensMax else { continue }
                        try await self.change(verb, waiting, client, pruning, &report, &failures)
                        waiting = []
                    }
                }
                try await self.change(verb, waiting, client, pruning, &report, &failures)
            }
            return report
        }
    }

    private func members(_ partition: Int, _ chunk: Int, _ ordinals: [Int]) async throws -> [Member] {
        var members: [Member] = []
        let slabs = try await self.installation.store.readSlabs(
            self.route,
            partition,
            chunk: chunk,
            ordinals: ordinals,
        )
        for (read, reply) in slabs {
            read.forEachRecord(in: reply) { ordinal, value in
                guard let header = RecordHeader(value),
                    let view = DeviceRecordView(value, RecordHeader.byteCount..<value.count), view.suspicion == nil,
                    // The batch interface accepts tokens only.
                    self.interface == .subscriptions || view.tokenKind == .device
                else { return }
                let reference = DeviceReference(
                    partition: UInt32(partition),
                    ordinal: ordinal,
                    generation: header.generation,
                )
                let token = view.token.map { value[$0] }
                members.append(Member(reference: reference, registeredAt: header.registeredAt, token: token))
            }
        }
        return members
    }

    private func change(
        _ verb: FCMTopicChange.Verb,
        _ members: [Member],
        _ client: ProviderAccess.TopicClient,
        _ pruning: Pruning,
        _ report: inout Report,
        _ failures: inout UInt32,
    ) async throws {
        var waiting = members
        while !waiting.isEmpty {
            let later = try await self.round(verb, waiting, client, pruning, &report)
            failures = later.count < waiting.count ? 0 : failures + 1
            waiting = later
            guard !waiting.isEmpty else { return }
            let now = SystemClock().now()
            let decision = RetryPolicy.fcmTopics.decide(
                attempt: max(1, failures),
                retryAfterMilliseconds: nil,
                now: now,
                expiresAt: nil,
                draw: Double.random(in: 0..<1),
            )
            guard case .retry(let time) = decision else {
                // Further rounds without progress are not waited for, but the next members are still tried.
                failures -= 1
                for _ in waiting { report.add(.later, of: verb) }
                return
            }
            try await self.wait(time.milliseconds(since: now))
        }
    }

    /// Requests each member once; returns those to be retried later.
    private func round(
        _ verb: FCMTopicChange.Verb,
        _ members: [Member],
        _ client: ProviderAccess.TopicClient,
        _ pruning: Pruning,
        _ report: inout Report,
    ) async throws -> [Member] {
        let tokens = members.map { String(decoding: $0.token, as: UTF8.self) }
        let outcomes = try await client(FCMTopicChange(verb, self.topic), tokens)
        var (later, gone): ([Member], [Member]) = ([], [])
        for (member, outcome) in zip(members, outcomes) {
            guard outcome != .later else {
                later.append(member)
                continue
            }
            report.add(outcome, of: verb)
            if outcome == .gone { gone.append(member) }
        }
        if report.kept > 0 || report.isSuspicious(by: pruning.rules) {
            report.kept += gone.count
        } else {
            for member in gone { try await pruning.prune(member, self.route) }
        }
        return later
    }
}
