internal import ApusCommand
internal import ApusConsole
package import ApusCore
package import ApusFCM
package import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore

/// Subscribes the members of one of our topics to FCM's topic of that name, so that a send to it reaches them all with one message.
///
/// Members are read partition by partition, so that memory does not grow with the topic. App instances that FCM calls
/// gone are pruned, as after an answer to a message. Nobody is unsubscribed: FCM does not list a topic's members.
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
        /// The number of those that are gone, and were pruned unless they were registered again meanwhile.
        package var pruned = 0
        /// The number of those that should be retried later.
        package var later = 0
        /// The number of those that were refused: bad tokens, too many topics, missing permissions.
        package var refused = 0
        /// The reason of the last refusal.
        package var word = ""

        /// Creates an empty report.
        package init() {}

        /// Counts a result.
        package mutating func add(_ outcome: FCMTopicOutcome) {
            self.members += 1
            switch outcome {
            case .done: self.subscribed += 1
            case .gone: self.pruned += 1
            case .later: self.later += 1
            case .badToken: self.refuse("INVALID_ARGUMENT")
            case .tooManyTopics: self.refuse("TOO_MANY_TOPICS")
            case .refused(let word): self.refuse(word)
            }
        }

        private mutating func refuse(_ word: String) {
            self.refused += 1
            self.word = word
        }
    }

    private struct Member {
        let reference: DeviceReference
        let token: [UInt8]
    }

    private let access: ProviderAccess
    private let installation: Installation
    private let route: Route
    private let topic: TopicName
    private let interface: ProviderAccess.TopicInterface
    /// Waits for the given milliseconds.
    private let wait: (Int64) async throws -> Void

    /// Creates the synchronisation of a topic.
    package init(
        _ access: ProviderAccess,
        _ installation: Installation,
        app: AppID,
        topic: TopicName,
        by interface: ProviderAccess.TopicInterface,
        wait: @escaping (Int64) async throws -> Void = { try await Task.sleep(for: .milliseconds($0)) },
    ) {
        self.access = access
        self.installation = installation
        self.route = Route(app: app, provider: .fcm, environment: .production)
        self.topic = topic
        self.interface = interface
        self.wait = wait
    }

    /// Synchronises the topic. It may be repeated.
    package func run() async throws -> Report {
        let store = self.installation.store
        guard let number = try await store.topicNumber(self.route.app, self.topic) else { return Report() }
        return try await self.access.withTopics(by: self.interface) { client in
            var report = Report()
            // The number of consecutive rounds without progress.
            var failures: UInt32 = 0
            var waiting: [Member] = []
            for partition in 0..<self.installation.keyspace.devicePartitions {
                let chunks = try await store.chunkCount(self.route, partition)
                guard chunks > 0 else { continue }
                let sets = try await store.audience(self.route, partition, chunks: 0..<chunks, .topic(number))
                for (chunk, set) in sets.enumerated() where !set.isEmpty {
                    waiting += try await self.members(partition, chunk, set.ordinals)
                    guard waiting.count >= InstanceIDTopics.tokensMax else { continue }
                    try await self.subscribe(waiting, to: client, &report, &failures)
                    waiting = []
                }
            }
            try await self.subscribe(waiting, to: client, &report, &failures)
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
                members.append(Member(reference: reference, token: view.token.map { value[$0] }))
            }
        }
        return members
    }

    private func subscribe(
        _ members: [Member],
        to client: ProviderAccess.TopicClient,
        _ report: inout Report,
        _ failures: inout UInt32,
    ) async throws {
        var waiting = members
        while !waiting.isEmpty {
            let later = try await self.round(waiting, to: client, &report)
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
                for _ in waiting { report.add(.later) }
                return
            }
            try await self.wait(time.milliseconds(since: now))
        }
    }

    /// Requests each member once; returns those to be retried later.
    private func round(
        _ members: [Member],
        to client: ProviderAccess.TopicClient,
        _ report: inout Report,
    ) async throws -> [Member] {
        let asOf = SystemClock().now()
        let tokens = members.map { String(decoding: $0.token, as: UTF8.self) }
        let outcomes = try await client(FCMTopicChange(.subscribe, self.topic), tokens)
        var later: [Member] = []
        for (member, outcome) in zip(members, outcomes) {
            guard outcome != .later else {
                later.append(member)
                continue
            }
            report.add(outcome)
            guard outcome == .gone else { continue }
            _ = try await self.installation.store.prune(
                self.route,
                member.reference,
                tokenDigest: DeviceToken.digest(member.token),
                asOf: asOf,
            )
        }
        return later
    }
}
