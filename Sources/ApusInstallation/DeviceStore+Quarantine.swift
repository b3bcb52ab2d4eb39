package import ApusCore
package import ApusStore
package import ApusStreams

extension DeviceStore {
    /// Applies the consequence of a quarantine's reason, unless the token has been cleared, whatever was said of it later: a device whose token its
    /// provider accepts in the other environment is moved there, any other is removed.
    ///
    /// - Parameters:
    ///   - undo: how a removed device can be brought back; nil: not at all.
    ///   - event: what a removed device's history says of that; nil: nothing.
    package func settle(
        _ suspect: QuarantinedToken,
        on route: Route,
        undo: UndoRules?,
        event: RemovalEvent? = nil,
    ) async throws(StoreError) -> VerdictResult {
        if suspect.isOfOtherEnvironment {
            return try await self.learnEnvironment(
                route,
                suspect.reference,
                tokenDigest: suspect.tokenDigest,
                since: suspect.since,
            )
        }
        return try await self.pruneSuspect(
            route,
            suspect.reference,
            tokenDigest: suspect.tokenDigest,
            since: suspect.since,
            undo: undo,
            event: event,
        )
    }
}

extension HistoryEvent {
    /// Creates an event of a device whose token is under suspicion, or of what that led to.
    package init(_ kind: Kind, of suspect: QuarantinedToken, on route: Route) {
        self.init(kind, at: suspect.since, provider: route.provider)
        self.reason = suspect.reason
    }
}
