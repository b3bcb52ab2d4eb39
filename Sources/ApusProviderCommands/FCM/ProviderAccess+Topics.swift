internal import ApusCommand
internal import ApusCore
package import ApusFCM
internal import ApusHTTP2
internal import ApusProviders
internal import ApusTerminal
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
        try await self.withFCM(isInstanceID: interface == .instanceID) { fcm in
            try await body { change, instances in
                guard let client = await fcm.connection() else {
                    return Array(repeating: .later, count: instances.count)
                }
                let header = try await fcm.authorization()
                let address = fcm.address
                switch interface {
                case .instanceID: return try await Self.batches(change, instances, address, header, client)
                case .subscriptions:
                    let project = fcm.settings.projectID
                    return try await Self.oneByOne(instances) { instance in
                        let request = try TopicSubscriptions.request(
                            change,
                            instance: instance,
                            project: project,
                            authority: address.authority,
                            authorization: header,
                        )
                        let answer = await client.send(request)
                        return TopicSubscriptions.outcome(status: answer?.status ?? 503, body: answer?.body ?? [])
                    }
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
