internal import ApusCommand
internal import ApusConsole
internal import ApusCore
package import ApusFCM
internal import ApusHTTP2
internal import ApusProviders
internal import NIOCore

extension ProviderAccess {
    /// The interfaces of Google that change topics.
    package enum TopicInterface: String, CaseIterable, Sendable {
        /// Takes many tokens in one request; Google removes it on 2027-09-29.
        case instanceID = "instance-id"
        /// Takes one app instance in each request; required for new projects.
        case subscriptions
    }

    /// Changes the members of FCM's topics; returns the result of each app instance in the given order.
    package typealias TopicClient = (FCMTopicChange, [String]) async throws -> [FCMTopicOutcome]

    /// Runs `body` with a connection for changes of topics, which is reopened for the next change after it has ended.
    /// App instances are named by token or, with ``TopicInterface/subscriptions``, also by installation id.
    package func withTopics<Result>(
        by interface: TopicInterface,
        _ body: (TopicClient) async throws -> Result,
    ) async throws -> Result {
        guard let fcm = self.settings.fcm else { throw CommandFailure("\(self.app) has no fcm in the configuration") }
        guard let base = WebAddress(https: fcm.baseURL) else {
            throw CommandFailure("fcm.base_url is not an https address")
        }
        let tls = try Self.tls(fcm.caFile)
        let eventLoop = Self.eventLoop
        let account = try Self.read(fcm.serviceAccountFile) { try ServiceAccount(json: $0) }
        guard let tokenURL = WebAddress(https: fcm.tokenURL ?? account.tokenURI) else {
            throw CommandFailure("the token address of \(fcm.serviceAccountFile) is not an https address")
        }
        let source = AccessTokenClient(address: tokenURL, eventLoop: eventLoop, tls: tls, logger: Self.logger)
        let credential = FCMCredential(account: account, source: source, clock: self.clock, logger: Self.logger)
        // A substitute for Google serves both of its hosts.
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
            let client = client
            guard let header = try await Self.header(credential, eventLoop) else {
                preconditionFailure("an account makes headers")
            }
            switch interface {
            case .instanceID: return try await Self.batches(change, instances, address, header, client)
            case .subscriptions:
                return try await Self.oneByOne(instances) { instance in
                    let request = try TopicSubscriptions.request(
                        change,
                        instance: instance,
                        project: fcm.projectID,
                        authority: address.authority,
                        authorization: header,
                    )
                    let answer = await client.send(request)
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
            let answer = await client.send(request)
            // A request without an answer may be repeated: repetition changes nothing.
            let (status, body) = (answer?.status ?? 503, answer?.body ?? [])
            outcomes += InstanceIDTopics.outcomes(status: status, body: body, count: batch.count)
        }
        return outcomes
    }

    /// The maximum number of concurrent requests that name one app instance each.
    private static let requestsMax = 64

    private static func oneByOne(
        _ instances: [String],
        _ change: @escaping @Sendable (String) async throws -> FCMTopicOutcome,
    ) async throws -> [FCMTopicOutcome] {
        try await withThrowingTaskGroup(of: (Int, FCMTopicOutcome).self) { group in
            var outcomes = Array(repeating: FCMTopicOutcome.later, count: instances.count)
            for (index, instance) in instances.enumerated() {
                if index >= Self.requestsMax, let (done, outcome) = try await group.next() { outcomes[done] = outcome }
                group.addTask { (index, try await change(instance)) }
            }
            for try await (done, outcome) in group { outcomes[done] = outcome }
            return outcomes
        }
    }
}
