/// A reason for which recipients on a route wait, none of which is a mere lack of speed.
package enum RouteObstacle: Hashable, Sendable {
    /// The route has not been in the configuration of any dispatcher for that many milliseconds.
    case notConfigured(milliseconds: Int64)
    /// An operator has paused the route.
    case pausedByOperator
    /// The mass-failure guard has paused it.
    case pausedByGuard
    /// The provider refuses the configuration, for that reason.
    case configurationRefused(String)
    /// The provider refuses the credential, for that reason.
    case credentialRefused(String)
    /// A dispatcher cannot reach the provider.
    case unreachable(RouteState.ConnectionFault)
    /// The provider fails: it does not answer, or with errors of its own; or a dispatcher has no connection to it, or no credential.
    case failing(FailingRoute)
    /// The provider's key for a third party is wrong, and devices behind that party wait.
    case thirdPartyAuth(String)
    /// The provider refuses a subroute, for that reason, and what goes by it waits.
    case subrouteRefused(String, word: String)
    /// The provider has asked for a pause of that many milliseconds.
    case pausedByProvider(milliseconds: Int64)

    /// The kinds of reasons, by their words in the HTTP API.
    package enum Code: String, CaseIterable, Sendable {
        case notConfigured = "not_configured"
        case paused
        case pausedByGuard = "paused_by_guard"
        case configurationRefused = "configuration_refused"
        case credentialRefused = "credential_refused"
        case unreachable
        case providerFailing = "provider_failing"
        case thirdPartyAuth = "third_party_auth"
        case topicRefused = "topic_refused"
        case pausedByProvider = "paused_by_provider"
    }

    /// The kind of reason.
    package var code: Code {
        switch self {
        case .notConfigured: .notConfigured
        case .pausedByOperator: .paused
        case .pausedByGuard: .pausedByGuard
        case .configurationRefused: .configurationRefused
        case .credentialRefused: .credentialRefused
        case .unreachable: .unreachable
        case .failing(let failure): failure.isUnreachable ? .unreachable : .providerFailing
        case .thirdPartyAuth: .thirdPartyAuth
        case .subrouteRefused: .topicRefused
        case .pausedByProvider: .pausedByProvider
        }
    }

    /// The provider's or the network's words; empty when there are none.
    package var detail: String {
        switch self {
        case .notConfigured, .pausedByOperator, .pausedByGuard, .pausedByProvider: ""
        case .configurationRefused(let word), .credentialRefused(let word), .thirdPartyAuth(let word): word
        case .unreachable(let fault): fault.detail
        case .failing(let failure): failure.word
        case .subrouteRefused(let name, let word): "\(name): \(word)"
        }
    }
}

extension RouteState {
    /// Returns the reasons for which recipients on the route wait.
    ///
    /// - Parameters:
    ///   - failure: the failure of the provider or of a connection to it, as dispatchers see it; nil when it works, as far as is known.
    ///   - unconfiguredMilliseconds: the time for which no dispatcher has had the route; nil while one has it. Then nothing else matters.
    package func obstacles(_ failure: FailingRoute?, unconfiguredMilliseconds: Int64?) -> [RouteObstacle] {
        if let unconfiguredMilliseconds { return [.notConfigured(milliseconds: unconfiguredMilliseconds)] }
        var obstacles: [RouteObstacle] = []
        switch self.stop {
        case nil: break
        case .byOperator: obstacles.append(.pausedByOperator)
        case .byGuard: obstacles.append(.pausedByGuard)
        case .byFault(let fault):
            obstacles.append(
                fault.kind == .credential ? .credentialRefused(fault.word) : .configurationRefused(fault.word)
            )
        }
        if let fault = self.connectionFault { obstacles.append(.unreachable(fault)) }
        // A dispatcher that cannot connect says so in both.
        if let failure, self.connectionFault == nil || !failure.isUnreachable { obstacles.append(.failing(failure)) }
        if let word = self.thirdPartyAuthError { obstacles.append(.thirdPartyAuth(word)) }
        for (name, word) in self.refusedSubroutes.sorted(by: { $0.key < $1.key }) {
            obstacles.append(.subrouteRefused(name, word: word))
        }
        if self.rateLimit.pauseMilliseconds > 0 {
            obstacles.append(.pausedByProvider(milliseconds: self.rateLimit.pauseMilliseconds))
        }
        return obstacles
    }
}
