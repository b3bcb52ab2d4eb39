package import ApusCore
internal import ApusMessages

/// Moves tokens between owners; a token has one owner. It changes hands in four steps, each of which may be the last before a crash: claim
/// it in the token index, clear the records of other holders, write the own record, confirm. Until the confirmation the index names all
/// that may hold the token, so the next claim, or the janitor, finds and finishes what was left. Where somebody waits for replicas, they have
/// the removals before the confirmation: a holder that a master brings back is in the index, and is cleared again.
extension DeviceStore {
    /// Returns the device that holds a token; nil when none does.
    ///
    /// - Throws: `contended` while the token changes hands and neither holder's record has it.
    package func find(_ app: AppID, token: [UInt8]) async throws(StoreError) -> StoredDevice? {
        let placed = self.calls.placed(app, token)
        var owners = try await self.calls.owners(app, placed)
        for _ in 0..<StoreLimits.attemptsMax {
            guard !owners.isEmpty else { return nil }
            let devices = try await self.readable(app, owners.map(\.device)).devices
            if let holder = devices.values.first(where: { $0.record.token == token }) { return holder }
            // The next holder may have come while the last one's record was read.
            let later = try await self.calls.owners(app, placed)
            guard later != owners else { break }
            owners = later
        }
        guard owners.allSatisfy(\.isSettled) else { throw StoreError(.contended, "the token changes hands") }
        return nil
    }

    /// Claims a token for a device and clears the records of its other holders.
    ///
    /// - Parameters:
    ///   - asOf: the time of the claim, if it has one: holders that were registered later stay.
    ///   - isRemembered: true to remember their removal for registrations that are older than the claim: one without a time is of the present.
    /// - Returns: the former owners, for the confirmation; nil when such a holder is there.
    func claim(
        _ token: [UInt8],
        _ home: Home,
        asOf: UnixMilliseconds?,
        isRemembered: Bool,
    ) async throws(StoreError) -> ClearedOwners? {
        let placed = self.calls.placed(home.app, token)
        for _ in 0..<StoreLimits.attemptsMax {
            let answer = try await self.calls.claim(home.app, placed, by: home.owner)
            var cleared = ClearedOwners(removal: try await self.beginRemoval(of: answer.others, from: placed))
            for other in answer.others {
                switch try await self.clear(other, of: token, home.app, asOf: asOf, isRemembered: isRemembered) {
                case .cleared: cleared.owners.append(other)
                case .sharesEntry: break
                case .isNewer: return nil
                }
            }
            guard case .crowded = answer else { return cleared }
            try await cleared.removal.end()
            for other in cleared.owners { try await self.calls.release(home.app, placed, from: other) }
        }
        throw StoreError(.contended, "too many devices claim the same token")
    }

    /// The former owners of a token that were cleared for a claim.
    struct ClearedOwners: Sendable {
        var owners: [DeviceOwner] = []
        /// The wait before the token's entry may forget them.
        var removal = RemovalWait()

        /// True when nobody was cleared.
        var isEmpty: Bool { self.owners.isEmpty }
    }

    /// Confirms a claim, after the claimer's record holds the token: once replicas have that the former owners were cleared.
    func confirm(
        _ token: StoreCalls.Placed,
        _ home: Home,
        _ cleared: ClearedOwners,
    ) async throws(StoreError) -> StoreCalls.ConfirmAnswer {
        if !cleared.isEmpty { try await cleared.removal.end() }
        return try await self.calls.confirm(home.app, token, by: home.owner, cleared: cleared.owners)
    }

    /// The result of clearing an owner of a token.
    enum ClearResult: Sendable {
        /// The device has no place in the token's entry any more.
        case cleared
        /// The device has another token of the same entry.
        case sharesEntry
        /// The device was registered with the token later.
        case isNewer
    }

    /// Removes the device at an owner's place if its record holds the token.
    ///
    /// - Parameters:
    ///   - asOf: the time of the claim that needs it, if it has one: a device that was registered later stays.
    ///   - isRemembered: as for a claim.
    @discardableResult
    func clear(
        _ owner: DeviceOwner,
        of token: [UInt8],
        _ app: AppID,
        asOf: UnixMilliseconds?,
        isRemembered: Bool,
    ) async throws(StoreError) -> ClearResult {
        let home = Home(app: app, id: nil, owner: owner)
        for _ in 0..<StoreLimits.attemptsMax {
            let found: StoredDevice?
            do throws(StoreError) {
                found = try await self.read(home)
            } catch {
                // The token of a record that cannot be read may be any, and nobody sends to it. An app that registers its token with another
                // device must not be refused for that. One that is encrypted with a key that only this process lacks is sent to.
                guard error.code == .corrupt else { throw error }
                return .sharesEntry
            }
            guard let device = found else { return .cleared }
            guard device.record.token == token else {
                return self.calls.sharesEntry(app, device.record.token, token) ? .sharesEntry : .cleared
            }
            if let asOf, asOf < device.registeredAt { return .isNewer }
            try await self.noteFormerDevice(device, home)
            if try await self.calls.remove(device, owner, isRemembered: isRemembered, asOf: asOf) {
                try await self.withdraw(token: nil, user: device.record.user, of: home)
                return .cleared
            }
        }
        throw Self.contended
    }

    /// Gives up a token that another device claimed later.
    ///
    /// - Parameters:
    ///   - asOf: the time at which the device was registered with it, if it has one.
    ///   - isRemembered: as for a claim.
    func yield(
        _ token: [UInt8],
        _ home: Home,
        asOf: UnixMilliseconds? = nil,
        isRemembered: Bool = false,
    ) async throws(StoreError) {
        let removal = try await self.beginRemoval(of: [home.owner], from: self.calls.placed(home.app, token))
        try await self.clear(home.owner, of: token, home.app, asOf: asOf, isRemembered: isRemembered)
        try await removal.end()
        try await self.withdraw(token: token, user: nil, of: home)
    }

    /// Makes the entry of a token agree with a device's record: the entry names the device only while its record holds that token or
    /// another one of the entry.
    ///
    /// - Parameter asOf: the time at which the device was registered, if the entry does not say which of several holders came last: one that was
    ///   registered later keeps the token, and the device is removed. Nil: the device keeps it.
    func settle(_ token: [UInt8], _ home: Home, asOf: UnixMilliseconds? = nil) async throws(StoreError) {
        var token = token
        for _ in 0..<StoreLimits.attemptsMax {
            guard let held = try await self.heldToken(like: token, home) else {
                try await self.calls.release(home.app, self.calls.placed(home.app, token), from: home.owner)
                guard try await self.heldToken(like: token, home) != nil else { return }
                continue
            }
            token = held
            // Without a time the claim that is made good here may be of any time.
            let isRemembered = asOf != nil
            let placed = self.calls.placed(home.app, token)
            guard let cleared = try await self.claim(token, home, asOf: asOf, isRemembered: isRemembered) else {
                return try await self.yield(token, home, asOf: asOf, isRemembered: isRemembered)
            }
            switch try await self.confirm(placed, home, cleared) {
            case .settled:
                guard try await self.heldToken(like: token, home) != token else { return }
            case .withdrawn:
                continue
            case .superseded:
                return try await self.yield(token, home)
            }
        }
        throw Self.contended
    }

    /// Returns the token of a device's record, if it has the same entry as that one.
    private func heldToken(like token: [UInt8], _ home: Home) async throws(StoreError) -> [UInt8]? {
        guard let held = try await self.read(home)?.record.token else { return nil }
        return self.calls.sharesEntry(home.app, held, token) ? held : nil
    }
}
