package import ApusCore
package import ApusMessages
internal import ApusRedis

/// How a verdict of a provider about a device's token ended.
package enum VerdictResult: Hashable, Sendable {
    /// The record was changed, or removed; this was its state before a removal or is its state after a change.
    case applied(StoredDevice)
    /// It was so already.
    case unchanged
    /// The app registered the token again since.
    case newerRegistration
    /// The device has another token now.
    case tokenChanged
    /// The device is gone, or its place belongs to another.
    case gone
}

extension DeviceStore {
    /// Removes a device whose token a provider calls dead: only while it still holds that very token, and only if the app
    /// has not registered it since. The token of a Live Activity goes alone, by its own registration: the device is none the worse.
    ///
    /// A provider may say since when the token is dead, as in
    /// "The time […] at which [it] confirmed the token was no longer valid for the topic." (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns)
    ///
    /// - Parameters:
    ///   - tokenDigest: of the token that was sent to.
    ///   - asOf: the provider's timestamp; without one, the start of the request.
    ///   - undo: how the device can be brought back; nil: not at all.
    package func prune(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        asOf: UnixMilliseconds,
        undo: UndoRules? = nil,
    ) async throws(StoreError) -> VerdictResult {
        try await self.remove(route, reference, tokenDigest: tokenDigest, undo: undo) { current in
            current.registeredAt <= asOf ? nil : .newerRegistration
        } address: {
            $0.registeredAt <= asOf ? nil : .newerRegistration
        }
    }

    /// Removes a device whose token is still under suspicion: only while it holds that very token. A registration ends a suspicion.
    ///
    /// - Parameter undo: how the device can be brought back; nil: not at all.
    /// - Returns: `unchanged` when there is no suspicion any more.
    package func pruneSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        undo: UndoRules? = nil,
    ) async throws(StoreError) -> VerdictResult {
        try await self.remove(route, reference, tokenDigest: tokenDigest, undo: undo) { current in
            current.record.suspicion == nil ? .unchanged : nil
        } address: {
            $0.isSuspect ? nil : .unchanged
        }
    }

    /// Notes that a token may be bad: nothing is sent to it until the suspicion ends.
    ///
    /// - Parameter since: when it was noticed. A token registered after that is not suspect.
    package func markSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        reason: Reason,
        since: UnixMilliseconds,
    ) async throws(StoreError) -> VerdictResult {
        try await self.judge(route, reference, tokenDigest: tokenDigest, asOf: since) { record in
            // The first suspicion counts: its age decides.
            if record.suspicion == nil { record.suspicion = DeviceRecord.Suspicion(since: since, reason: reason) }
        } address: {
            // Until the environment is learnt, what is taken in the other one goes there by way of its own.
            if reason != .wrongEnvironment { $0.isSuspect = true }
        }
    }

    /// Ends a suspicion.
    package func clearSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
    ) async throws(StoreError) -> VerdictResult {
        try await self.judge(route, reference, tokenDigest: tokenDigest, asOf: nil) {
            $0.suspicion = nil
        } address: {
            $0.isSuspect = false
        }
    }

    /// Moves a device to its provider's other environment, where its token is taken: only while it holds that very token and is suspect.
    /// A registration of the same token leaves it there, whatever environment that names. The token of a Live Activity goes there
    /// alone.
    ///
    /// - Parameter route: of the environment in which the store has it so far.
    /// - Returns: `unchanged` when there is no suspicion any more.
    package func learnEnvironment(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
    ) async throws(StoreError) -> VerdictResult {
        let realm = Realm(route.provider, route.environment == .production ? .sandbox : .production)
        precondition(realm != Realm(route), "a provider with two environments")
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(route, reference) else { return .gone }
            var record = current.record
            guard DeviceToken.digest(record.token) == tokenDigest else {
                guard let index = record.addressIndex(tokenDigest) else { return .tokenChanged }
                guard !record.secondary[index].isOfOtherEnvironment else { return .unchanged }
                record.secondary[index].isOfOtherEnvironment = true
                guard let written = try await self.rewrite(record, over: current) else { continue }
                return .applied(written)
            }
            guard record.suspicion != nil else { return .unchanged }
            // What was elsewhere is at home there; of the rest it is found out anew.
            for index in record.secondary.indices { record.secondary[index].isOfOtherEnvironment = false }
            record.environment = realm.environment
            record.isEnvironmentLearned = true
            record.suspicion = nil
            let moved = try await self.write(
                record,
                over: current,
                realm: realm,
                home: self.home(of: current),
                stamp: .keep,
                judges: true,
            )
            if let moved { return .applied(moved) }
        }
        throw Self.contended
    }

    /// The device that a reference means; nil when it is gone or its place belongs to another.
    package func read(_ route: Route, _ reference: DeviceReference) async throws(StoreError) -> StoredDevice? {
        let realm = Realm(route)
        guard Int(reference.partition) < self.keys.keyspace.devicePartitions,
            let value = try await self.calls.record(
                route.app,
                realm,
                partition: Int(reference.partition),
                ordinal: reference.ordinal,
            )
        else { return nil }
        let device = try StoredDevice(
            app: route.app,
            realm: realm,
            partition: Int(reference.partition),
            ordinal: reference.ordinal,
            value: value,
        )
        return device.reference == reference ? device : nil
    }

    /// Removes a device that holds that token, unless something stands against it; or from it an address that has the token.
    ///
    /// - Parameter addressObjection: what stands against removing such an address.
    private func remove(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        undo: UndoRules?,
        unless objection: (StoredDevice) -> VerdictResult?,
        address addressObjection: (DeviceRecord.SecondaryAddress) -> VerdictResult?,
    ) async throws(StoreError) -> VerdictResult {
        var attempted: StoredDevice?
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(route, reference) else {
                guard let attempted else { return .gone }
                try await self.forget(attempted, self.home(of: attempted))
                return .applied(attempted)
            }
            guard DeviceToken.digest(current.record.token) == tokenDigest else {
                var record = current.record
                guard let index = record.addressIndex(tokenDigest) else { return .tokenChanged }
                if let objection = addressObjection(record.secondary[index]) { return objection }
                record.secondary.remove(at: index)
                guard let written = try await self.rewrite(record, over: current) else { continue }
                return .applied(written)
            }
            if let objection = objection(current) { return objection }
            attempted = current
            let home = self.home(of: current)
            if let undo { try await self.notePruned(current, home, undo) }
            if try await self.calls.remove(current, home.owner, undo: undo) {
                try await self.forget(current, home)
                return .applied(current)
            }
        }
        throw Self.contended
    }

    private func judge(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        asOf: UnixMilliseconds?,
        _ edit: (inout DeviceRecord) -> Void,
        address editAddress: (inout DeviceRecord.SecondaryAddress) -> Void,
    ) async throws(StoreError) -> VerdictResult {
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(route, reference) else { return .gone }
            var record = current.record
            if DeviceToken.digest(record.token) == tokenDigest {
                if let asOf, asOf < current.registeredAt { return .newerRegistration }
                edit(&record)
            } else {
                guard let index = record.addressIndex(tokenDigest) else { return .tokenChanged }
                if let asOf, asOf < record.secondary[index].registeredAt { return .newerRegistration }
                editAddress(&record.secondary[index])
            }
            guard record != current.record else { return .unchanged }
            if let written = try await self.rewrite(record, over: current) { return .applied(written) }
        }
        throw Self.contended
    }

    /// Writes another record in a device's place, as long as it is the one that was read; nil: it is not any more.
    private func rewrite(
        _ record: DeviceRecord,
        over current: StoredDevice,
    ) async throws(StoreError) -> StoredDevice? {
        try await self.write(
            record,
            over: current,
            realm: current.realm,
            home: self.home(of: current),
            stamp: .keep,
            judges: true,
        )
    }
}

extension StoredDevice {
    /// Whether its own token has that digest.
    package func isAddressed(by tokenDigest: UInt64) -> Bool { DeviceToken.digest(self.record.token) == tokenDigest }

    /// Whether its own token, or one of its further addresses, has that digest.
    package func has(tokenDigest: UInt64) -> Bool {
        self.isAddressed(by: tokenDigest) || self.record.addressIndex(tokenDigest) != nil
    }

    /// Names who answers for its token: its user, else the user who had it last, else the device itself. A user who registers many tokens,
    /// and leaves their devices to nobody, is still one.
    package var tokenOwner: String {
        let user = self.record.user.isEmpty ? self.record.formerUser : DeviceRecord.digest(ofUser: self.record.user)
        guard user == 0 else { return "u\(String(user, radix: 16))" }
        return "d\(self.reference.partition):\(self.reference.ordinal):\(self.reference.generation)"
    }
}

extension DeviceRecord {
    /// Which of its further addresses has the token of that digest.
    fileprivate func addressIndex(_ tokenDigest: UInt64) -> Int? {
        self.secondary.firstIndex { DeviceToken.digest($0.token) == tokenDigest }
    }
}
