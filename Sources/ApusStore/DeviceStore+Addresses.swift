package import ApusCore
package import ApusMessages

/// Manages further tokens of a device, each for one purpose and a time: those of Live Activities.
extension DeviceStore {
    /// The maximum time that a token which updates a Live Activity is kept. An activity is active for up to eight hours, and stays on the
    /// lock screen for up to four more (https://developer.apple.com/documentation/activitykit/displaying-live-data-with-live-activities).
    package static let activityTokenAge = Duration.seconds(12 * 3_600)
    /// The maximum time that a token which starts Live Activities is kept; the app reports it again at its starts.
    package static let activityStartTokenAge = Duration.seconds(30 * 24 * 3_600)

    /// Adds an address, or replaces that of the same kind and activity, and drops expired ones. The address counts as registered at the
    /// time of the call, unless it has its own time; the same token again stays in the environment that was found to accept it.
    ///
    /// - Throws: `invalidRegistration` when the device's provider has no Live Activities, `tooManyAddresses` when it has the maximum.
    package func putAddress(
        _ app: AppID,
        _ device: DeviceID,
        _ address: DeviceRecord.SecondaryAddress,
        condition: DeviceCondition = .none,
    ) async throws(StoreError) -> ChangeResult {
        guard let stored = try await self.get(app, device) else {
            try condition.check(nil)
            return .missing
        }
        guard stored.realm.provider.traits.hasActivities else {
            let detail = "a device of \(stored.realm.provider.name) has no Live Activities"
            throw StoreError(.invalidRegistration, detail)
        }
        let (realm, now) = (stored.realm, self.clock.now())
        var address = address
        if address.registeredAt.value == 0 { address.registeredAt = now }
        return try await self.change(app, device, asOf: nil, condition: condition) { record throws(StoreError) in
            record.dropAddresses(of: realm, now: now)
            let isNewerThere = record.secondary.contains {
                $0.kind == address.kind && $0.activityID == address.activityID
                    && $0.registeredAt > address.registeredAt
            }
            guard !isNewerThere else { return }
            address.isOfOtherEnvironment = record.secondary.contains {
                $0.token == address.token && $0.isOfOtherEnvironment
            }
            record.secondary.removeAll { $0.kind == address.kind && $0.activityID == address.activityID }
            guard record.secondary.count < Limits.secondaryAddressesMax else {
                let detail = "a device may have \(Limits.secondaryAddressesMax) addresses beside its own"
                throw StoreError(.tooManyAddresses, detail)
            }
            record.secondary.append(address)
        }
    }

    /// Removes the addresses of an activity.
    package func removeAddresses(
        _ app: AppID,
        _ device: DeviceID,
        activity: String,
        condition: DeviceCondition = .none,
    ) async throws(StoreError) -> ChangeResult {
        try await self.change(app, device, asOf: nil, condition: condition) { record in
            record.secondary.removeAll { $0.activityID == activity }
        }
    }
}

extension DeviceRecord {
    /// Gives the device to that user, or to nobody. What was on another user's screen is not for the next one.
    mutating func pass(to user: String) {
        if user != self.user { self.secondary = [] }
        if !user.isEmpty {
            self.formerUser = 0
        } else if !self.user.isEmpty {
            self.formerUser = Self.digest(ofUser: self.user)
        }
        self.user = user
    }

    /// Returns the first four bytes of a user's SHA-256, never 0.
    static func digest(ofUser user: String) -> UInt32 {
        max(1, UInt32(truncatingIfNeeded: DeviceToken.digest(Array(user.utf8)) >> 32))
    }

    /// Drops expired addresses, and all of them beside a token of a provider that has none.
    mutating func dropAddresses(of realm: Realm, now: UnixMilliseconds) {
        guard !self.secondary.isEmpty else { return }
        let hasActivities = realm.provider.traits.hasActivities
        self.secondary.removeAll { address in
            !hasActivities || (address.expiresAtSeconds > 0 && address.expiresAtSeconds <= now.seconds)
        }
    }
}
