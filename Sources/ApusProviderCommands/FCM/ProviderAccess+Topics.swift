internal import ApusCommand
internal import ApusConsole
internal import ApusCore
package import ApusFCM
internal import ApusHTTP2
internal import ApusProviders
internal import NIOCore

extension ProviderAccess {
    /// Which of Google's interfaces changes topics.
    package enum TopicInterface: String, CaseIterable, Sendable {
        /// Many tokens in one request; Google removes it on 2027-09-29.
        case instanceID = "instance-id"
        /// One app instance in each request: for new projects.
        case subscriptions
    }

    /// Changes who is in FCM's topics; what became of each app instance comes in the order given.
    package typealias TopicDesk = (FCMTopicChange, [String]) async throws -> [FCMTopicOutcome]

    /// Runs `body` with a connection for changes of topics, which is made anew for the next change when it has ended. App instances are
    /// named by token or, with ``TopicInterface/subscriptions``, by installation id too.
    package func withTopics<Result>(
        by interface: TopicInterface,
        _ body: (TopicDesk) async throws -> Result,
    ) async throws -> Result {
        guard let fcm = self.settings.fcm else { throw CommandFailure("\(self.app) has no fcm in the configuration") }
        guard let base = WebAddress(https: fcm.baseURL) else {
            throw CommandFailure("fcm.base_url is no https address")
        }
        let tls = try Self.tls(fcm.caFile)
        let eventLoop = Self.eventLoop
        let account = try Self.read(fcm.serviceAccountFile) { try ServiceAccount(json: $0) }
        guard let tokenURL = WebAddress(https: fcm.tokenURL ?? account.tokenURI) else {
            throw CommandFailure("the token address of \(fcm.serviceAccountFile) is no https address")
        }
        let source = AccessTokenClient(address: tokenURL, eventLoop: eventLoop, tls: tls, logger: Self.logger)
        let credential = FCMCredential(account: account, source: source, clock: self.clock, logger: Self.logger)
        // A stand-in for Google answers for both of its hosts.
        let isInstanceID = interface == .instanceID && base.host == "fcm.googleapis.com"
        let address = isInstanceID ? WebAddress(host: InstanceIDTopics.host) : base
        var client = try await Self.connect(address, tls, eventLoop)
        defer { client.close() }
        return try await body { change, instances in
            if await !client.isOpen {
                client.close()
                guard let next = try? await Self.connect(address, tls, eventLoop) else {
                    return Array(repeating: .later, count: instances.count)
                }
                client = next
            }
            let asked = client
            guard let header = try await Self.header(credential, eventLoop) else {
                preconditionFailure("an account makes headers")
            }
            switch interface {
            case .instanceID: return try await Self.batches(change, instances, address, header, asked)
            case .subscriptions:
                return try await Self.oneByOne(instances) { instance in
                    let request = try TopicSubscriptions.request(
                        change,
                        instance: instance,
                        project: fcm.projectID,
                        authority: address.authority,
                        authorization: header,
                    )
                    let answer = await asked.ask(request)
                    return TopicSubscriptions.outcome(status: answer?.status ?? 503, body: answer?.body ?? [])
                }
            }
        }
    }

    private static func batches(
        _ change: FCMTopicChange,
        _ instances: [String],
        _ address: WebAddress,
        _ header: HeaderValue,
        _ client: PlainClient,
    ) async throws -> [FCMTopicOutcome] {
        var outcomes: [FCMTopicOutcome] = []
        for batch in InstanceIDTopics.batches(instances) {
            let request = try InstanceIDTopics.request(
                change,
                tokens: batch,
                authority: address.authority,
                authorization: header,
            )
            let answer = await client.ask(request)
            // Without an answer it may be tried again: repeating changes nothing.
            let (status, body) = (answer?.status ?? 503, answer?.body ?? [])
            outcomes += InstanceIDTopics.outcomes(status: status, body: body, count: batch.count)
        }
        return outcomes
    }

    /// Questions under way at a time, of those that name one app instance each.
    private static let questionsMax = 64

    private static func oneByOne(
        _ instances: [String],
        _ ask: @escaping @Sendable (String) async throws -> FCMTopicOutcome,
    ) async throws -> [FCMTopicOutcome] {
        try await withThrowingTaskGroup(of: (Int, FCMTopicOutcome).self) { group in
            var outcomes = Array(repeating: FCMTopicOutcome.later, count: instances.count)
            for (index, instance) in instances.enumerated() {
                if index >= Self.questionsMax, let (done, outcome) = try await group.next() { outcomes[done] = outcome }
                group.addTask { (index, try await ask(instance)) }
            }
            for try await (done, outcome) in group { outcomes[done] = outcome }
            return outcomes
        }
    }
}
