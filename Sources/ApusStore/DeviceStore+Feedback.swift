package import ApusCore
package import ApusMessages
internal import ApusRedis

/// The result of applying a provider's verdict about a device's token.
package enum VerdictResult: Hashable, Sendable {
    /// The record was changed, or removed; the device is as before a removal or as after a change.
    case applied(StoredDevice)
    /// The record was in that state already.
    case unchanged
    /// The app has registered the token again since.
    case newerRegistration
    /// The device has another token.
    case tokenChanged
    /// The device is gone, or its place belongs to another.
    case gone
}

extension DeviceStore {
    /// Removes a device whose token a provider calls dead: only while it still holds that very token, and only if the app has not
    /// registered it since. The token of a Live Activity is removed alone, by the time of its own registration, and the device stays.
    ///
    /// A provider may say since when the token is dead, as in
    /// "The time […] at which [it] confirmed the token was no longer valid for the topic." (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns)
    ///
    /// - Parameters:
    ///   - tokenDigest: the digest of the token that was sent to.
    ///   - asOf: the provider's timestamp; without one, the start of the request.
    ///   - undo: the rules for bringing back the device; nil when it cannot be brought back.
    ///   - event: the event of the device's removal in its history; nil: none is written.
    package func prune(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        asOf: UnixMilliseconds,
        undo: UndoRules? = nil,
        event: RemovalEvent? = nil,
    ) async throws(StoreError) -> VerdictResult {
        try await self.remove(route, reference, tokenDigest: tokenDigest, undo: undo, event: event) { current in
            current.registeredAt <= asOf ? nil : .newerRegistration
        } address: {
            $0.registeredAt <= asOf ? nil : .newerRegistration
        }
    }

    /// Removes a device whose token is still under suspicion: only while it holds that very token. A registration ends a suspicion.
    ///
    /// - Parameters:
    ///   - since: the time of the provider's answer that is to have its consequence; nil for any. A suspicion that began after it waits for itself.
    ///   - undo: the rules for bringing back the device; nil when it cannot be brought back.
    ///   - event: the event of the device's removal in its history; nil: none is written.
    /// - Returns: `unchanged` when the token is not under that suspicion any more.
    package func pruneSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        since: UnixMilliseconds? = nil,
        undo: UndoRules? = nil,
        event: RemovalEvent? = nil,
    ) async throws(StoreError) -> VerdictResult {
        try await self.remove(route, reference, tokenDigest: tokenDigest, undo: undo, event: event) { current in
            current.isSuspect(since: since) ? nil : .unchanged
        } address: {
            $0.isSuspect ? nil : .unchanged
        }
    }

    /// Records that a token may be bad: nothing is sent to it until the suspicion ends.
    ///
    /// - Parameter since: the time of the provider's answer. A token registered after it is not suspect.
    package func markSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        reason: Reason,
        since: UnixMilliseconds,
    ) async throws(StoreError) -> VerdictResult {
        try await self.editAddress(route, reference, tokenDigest: tokenDigest, asOf: since) { record in
            // The first suspicion is kept, because its age decides. A refused message is less than one.
            guard record.suspicion == nil || record.isDoubted else { return }
            record.suspicion = DeviceRecord.Suspicion(since: since, reason: reason)
        } address: {
            // Until the environment is known, a token that the other environment accepts goes there by a request of its own.
            if reason != .wrongEnvironment { $0.isSuspect = true }
        }
    }

    /// Notes that a message was refused for a reason that may be the token: it goes on getting messages. The first such time is kept, until
    /// the provider accepts one.
    ///
    /// - Parameter since: the time of the provider's answer. A token registered after it is not affected.
    package func noteRefusal(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        since: UnixMilliseconds,
    ) async throws(StoreError) -> VerdictResult {
        try await self.editAddress(route, reference, tokenDigest: tokenDigest, asOf: since) { record in
            guard record.suspicion == nil else { return }
            record.suspicion = DeviceRecord.Suspicion(since: since, reason: DeviceRecord.Suspicion.refusedMessage)
        } address: { _ in
        }
    }

    /// Forgets refused messages from before the provider accepted one.
    ///
    /// - Parameter acceptedAt: the time of the accepted request.
    package func forgetRefusals(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        acceptedAt: UnixMilliseconds,
    ) async throws(StoreError) -> VerdictResult {
        try await self.editAddress(route, reference, tokenDigest: tokenDigest, asOf: nil) { record in
            guard record.isDoubted, let since = record.suspicion?.since, since <= acceptedAt else { return }
            record.suspicion = nil
        } address: { _ in
        }
    }

    /// Ends a suspicion.
    package func clearSuspect(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
    ) async throws(StoreError) -> VerdictResult {
        try await self.editAddress(route, reference, tokenDigest: tokenDigest, asOf: nil) {
            $0.suspicion = nil
        } address: {
            $0.isSuspect = false
        }
    }

    /// Ends the suspicion of a device's own token.
    ///
    /// - Returns: false when the device is another one than it was read as: then nothing has changed.
    func endSuspicion(of device: StoredDevice) async throws(StoreError) -> Bool {
        var record = device.record
        record.suspicion = nil
        return try await self.rewrite(record, over: device) != nil
    }

    /// Moves a device to its provider's other environment, which accepts its token: only while it holds that very token and is suspect. A
    /// registration of the same token leaves it there, whatever environment that names. The token of a Live Activity moves alone.
    ///
    /// - Parameters:
    ///   - route: the route of the environment in which the store has it so far.
    ///   - since: as in ``pruneSuspect(_:_:tokenDigest:since:undo:event:)``.
    /// - Returns: `unchanged` when the token is not under that suspicion any more.
    package func learnEnvironment(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        since: UnixMilliseconds? = nil,
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
            guard current.isSuspect(since: since) else { return .unchanged }
            // An address that was found in the other environment is at home there; the environment of the others is to be found again.
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
                isVerdict: true,
            )
            if let moved { return .applied(moved) }
        }
        throw Self.contended
    }

    /// Returns the device of a reference; nil when it is gone or its place belongs to another.
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
            cipher: self.encryption.cipher,
        )
        return device.reference == reference ? device : nil
    }

    /// Removes a device that holds that token, unless there is an objection; or removes the address that has the token from it.
    ///
    /// - Parameter addressObjection: the objection to removing such an address.
    private func remove(
        _ route: Route,
        _ reference: DeviceReference,
        tokenDigest: UInt64,
        undo: UndoRules?,
        event: RemovalEvent?,
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
            try await self.noteFormerDevice(current, home, event)
            if try await self.calls.remove(current, home.owner, undo: undo, event: event) {
                try await self.forget(current, home)
                return .applied(current)
            }
        }
        throw Self.contended
    }

    private func editAddress(
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

    /// Replaces a device's record if it is still the one that was read; returns nil when it is not.
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
            isVerdict: true,
        )
    }
}

extension StoredDevice {
    /// True when the device's own token is suspect: it gets no messages.
    package var isSuspect: Bool { self.isSuspect(since: nil) }

    /// Returns true when the device's own token was suspect at a time, and has been since; at any time for nil. A refused message is no suspicion
    /// yet.
    fileprivate func isSuspect(since time: UnixMilliseconds?) -> Bool {
        guard let suspicion = self.record.suspicion, !self.record.isDoubted else { return false }
        return time.map { suspicion.since <= $0 } ?? true
    }

    /// Returns true when the device's own token has that digest.
    package func isAddressed(by tokenDigest: UInt64) -> Bool { DeviceToken.digest(self.record.token) == tokenDigest }

    /// Returns true when the device's own token, or one of its further addresses, has that digest.
    package func has(tokenDigest: UInt64) -> Bool {
        self.isAddressed(by: tokenDigest) || self.record.addressIndex(tokenDigest) != nil
    }

    /// The party that answers for the token: the device's user, else the user who had it last, else the device itself. A user who registers
    /// many tokens, and then leaves their devices to nobody, still counts as one.
    package var tokenOwner: String {
        let user = self.record.user.isEmpty ? self.record.formerUser : DeviceRecord.digest(ofUser: self.record.user)
        guard user == 0 else { return "u\(String(user, radix: 16))" }
        return "d\(self.reference.partition):\(self.reference.ordinal):\(self.reference.generation)"
    }
}

extension DeviceRecord {
    /// True when all that is against the token is a refused message.
    fileprivate var isDoubted: Bool { self.suspicion?.reason == Suspicion.refusedMessage }

    /// Returns the further address whose token has that digest.
    fileprivate func addressIndex(_ tokenDigest: UInt64) -> Int? {
        self.secondary.firstIndex { DeviceToken.digest($0.token) == tokenDigest }
    }
}
