internal import ApusCommand
internal import ApusConsole
package import ApusCore
package import ApusFCM
package import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore

/// Hands the members of one of our topics to FCM, so that a send to FCM's topic of that name reaches them all with one message.
///
/// Members are read partition by partition, so that the memory it takes does not grow with the topic. Who FCM says is gone is
/// pruned, as after an answer to a message. Nobody is taken out of FCM's topic: FCM does not tell who is in it.
///
/// Who is to be tried again later is, after waits that grow, while nothing else is asked: a project may make 3,000 changes a second
/// (https://firebase.google.com/docs/cloud-messaging/topic-messaging). When that has brought nobody into the topic for a number of
/// rounds, the rest is asked once each and told.
package struct TopicSync {
    /// What came of it.
    package struct Report: Hashable, Sendable {
        /// Devices of the topic.
        package var members = 0
        /// Of those, subscribed now.
        package var subscribed = 0
        /// Of those, gone, and pruned unless they were registered again meanwhile.
        package var pruned = 0
        /// Of those, to be tried again later.
        package var later = 0
        /// Of those, refused: bad tokens, too many topics, no rights.
        package var refused = 0
        /// A refusal's word, of the last one.
        package var word = ""

        /// Nothing yet.
        package init() {}

        /// Counts an outcome.
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
    /// Waits for that many milliseconds.
    private let wait: (Int64) async throws -> Void

    /// Creates the sync of a topic.
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

    /// Does it. Safe to repeat.
    package func run() async throws -> Report {
        let store = self.installation.store
        guard let number = try await store.topicNumber(self.route.app, self.topic) else { return Report() }
        return try await self.access.withTopics(by: self.interface) { desk in
            var report = Report()
            // Rounds in a row that brought nothing.
            var failures: UInt32 = 0
            var waiting: [Member] = []
            for partition in 0..<self.installation.keyspace.devicePartitions {
                let chunks = try await store.chunkCount(self.route, partition)
                guard chunks > 0 else { continue }
                let sets = try await store.audience(self.route, partition, chunks: 0..<chunks, .topic(number))
                for (chunk, set) in sets.enumerated() where !set.isEmpty {
                    waiting += try await self.members(partition, chunk, set.ordinals)
                    guard waiting.count >= InstanceIDTopics.tokensMax else { continue }
                    try await self.hand(waiting, to: desk, &report, &failures)
                    waiting = []
                }
            }
            try await self.hand(waiting, to: desk, &report, &failures)
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
                    // The batch interface takes tokens only.
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

    private func hand(
        _ members: [Member],
        to desk: ProviderAccess.TopicDesk,
        _ report: inout Report,
        _ failures: inout UInt32,
    ) async throws {
        var waiting = members
        while !waiting.isEmpty {
            let later = try await self.round(waiting, to: desk, &report)
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
                // Further rounds of nothing are not waited for, but what comes next is tried.
                failures -= 1
                for _ in waiting { report.add(.later) }
                return
            }
            try await self.wait(time.milliseconds(since: now))
        }
    }

    /// Asks for each once; those that are to be tried again later.
    private func round(
        _ members: [Member],
        to desk: ProviderAccess.TopicDesk,
        _ report: inout Report,
    ) async throws -> [Member] {
        let asOf = SystemClock().now()
        let tokens = members.map { String(decoding: $0.token, as: UTF8.self) }
        let outcomes = try await desk(FCMTopicChange(.subscribe, self.topic), tokens)
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
