package import ApusCore
internal import ApusMessages

extension DeviceStore {
    /// Returns the devices of a user.
    package func devices(_ app: AppID, ofUser user: UserID) async throws(StoreError) -> [StoredDevice] {
        try await self.resolve(app, users: [user])[0]
    }

    /// Returns the devices of each of these users, in their order.
    ///
    /// - Throws: `corrupt` when a record cannot be read.
    package func resolve(_ app: AppID, users: [UserID]) async throws(StoreError) -> [[StoredDevice]] {
        try await self.find(app, users: users).map { found throws(StoreError) in
            try found.map { found throws(StoreError) in try found.device() }
        }
    }

    /// Returns what stands where the devices of each of these users are, in their order. A record that cannot be read may be
    /// another user's.
    package func find(_ app: AppID, users: [UserID]) async throws(StoreError) -> [[FoundDevice]] {
        let calls = self.calls
        let places = users.map { calls.placed(app, $0.text) }
        let byPartition = Dictionary(grouping: places.indices) { places[$0].partition }
        let lookups = byPartition.sorted { $0.key < $1.key }.flatMap { partition, indices in
            indices.parts(of: StoreLimits.lookupMax).map { (partition, $0) }
        }
        let hints = try await forEachConcurrently(lookups) { partition, indices in
            zip(indices, try await calls.userDevices(app, partition, indices.map { places[$0].digest }))
                .map { ($0, $1) }
        }.joined()
        let owners = Set(hints.flatMap { $0.1 })
        let devices = try await self.find(app, Array(owners))
        var resolved = [[FoundDevice]](repeating: [], count: users.count)
        for (index, owners) in hints {
            // A hint may be old, and users may share a digest, so the record decides.
            resolved[index] = owners.compactMap { devices[$0] }.filter { $0.mayBe(of: users[index]) }
        }
        return resolved
    }

    /// Removes a user's devices, and what leads from the user to them.
    ///
    /// - Returns: the devices that were removed.
    @discardableResult
    package func deleteUser(_ app: AppID, _ user: UserID) async throws(StoreError) -> [StoredDevice] {
        let removed = try await self.deleteDevices(app, ofUser: user)
        try await self.forgetUser(app, user)
        return removed
    }

    /// Removes a user's devices, and the records and histories of those that were removed before. What leads from the user to
    /// them stays: a master that loses its last writes brings devices back, which whoever asks again must find.
    ///
    /// - Parameter asOf: the time that the command is of; nil for the present. Devices registered later stay.
    /// - Returns: the devices that were removed.
    package func deleteDevices(
        _ app: AppID,
        ofUser user: UserID,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> [StoredDevice] {
        // An older registration may still come, of any device.
        if let asOf { try await self.calls.noteRemoval(app, ofUser: self.calls.placed(app, user.text), asOf: asOf) }
        // First: whoever is about to bring one back has noted it beside the user, or cannot write it.
        try await self.forgetFormerDevices(app, of: user, asOf: asOf, forgetsNotes: false)
        let devices = try await self.devices(app, ofUser: user)
        let removed = try await forEachConcurrently(devices) { device -> StoredDevice? in
            guard let id = try? DeviceID(device.id) else { return nil }
            do throws(StoreError) {
                // A device that is registered for nobody meanwhile, or logged out, stays.
                let result = try await self.delete(app, id, asOf: asOf, condition: .isOf(user), keepsUser: true)
                guard case .deleted(let last) = result else { return nil }
                return last
            } catch {
                // It is another user's or nobody's meanwhile.
                guard error.code == .foreign else { throw error }
                return nil
            }
        }
        return removed.compactMap(\.self)
    }

    /// Removes what leads from a user to devices that are not the user's any more, once their removal cannot be lost.
    ///
    /// - Parameter asOf: the time that the command is of; nil for the present.
    package func forgetUser(
        _ app: AppID,
        _ user: UserID,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) {
        let placed = self.calls.placed(app, user.text)
        let owners = try await self.calls.userDevices(app, placed.partition, [placed.digest])[0]
        let devices = try await self.read(app, owners)
        for owner in owners where !self.calls.sharesEntry(app, user: devices[owner]?.record.user ?? "", user.text) {
            try await self.withdraw(token: nil, user: user.text, of: Home(app: app, id: nil, owner: owner))
        }
        try await self.forgetFormerDevices(app, of: user, asOf: asOf, forgetsNotes: true)
    }

    /// The result of recording that a user may have a device.
    enum AddedUser: Sendable {
        /// It is recorded. The user lost the device of that id for it; nil: none.
        case added(displaced: String?)
        /// The user was forgotten after the time of the registration.
        case forgotten
    }

    /// Records that a user may have the device. A user with the maximum of devices loses the one that was seen longest ago.
    ///
    /// - Parameter asOf: the time of the registration or log-in that says so, if it has one.
    @discardableResult
    func addUser(_ user: String, _ home: Home, asOf: UnixMilliseconds? = nil) async throws(StoreError) -> AddedUser {
        let placed = self.calls.placed(home.app, user)
        var displaced: String?
        for _ in 0..<StoreLimits.attemptsMax {
            switch try await self.calls.addUser(home.app, placed, of: home.owner, asOf: asOf) {
            case .added: return .added(displaced: displaced)
            case .full: if let device = try await self.makeRoom(user, placed, home) { displaced = device }
            case .forgotten: return .forgotten
            }
        }
        throw Self.contended
    }

    private func makeRoom(
        _ user: String,
        _ placed: StoreCalls.Placed,
        _ home: Home,
    ) async throws(StoreError) -> String? {
        let hints = try await self.calls.userDevices(home.app, placed.partition, [placed.digest])[0]
        let (devices, corrupt) = try await self.readable(home.app, hints)
        let stale = hints.filter { hint in
            !corrupt.contains(hint)
                && !self.calls.sharesEntry(home.app, user: devices[hint]?.record.user ?? "", user)
        }
        for hint in stale {
            try await self.withdraw(token: nil, user: user, of: Home(app: home.app, id: nil, owner: hint))
        }
        guard stale.isEmpty else { return nil }
        let oldest = devices.values.filter { $0.record.user == user }.min { one, other in
            (one.lastSeenAt, one.registeredAt, one.id) < (other.lastSeenAt, other.registeredAt, other.id)
        }
        guard let oldest, let id = try? DeviceID(oldest.id) else { return nil }
        _ = try await self.change(home.app, id, asOf: nil, user: "") { if $0.user == user { $0.pass(to: "") } }
        // Also where the change has removed nothing, because the device had left the user already.
        try await self.withdraw(token: nil, user: user, of: self.home(of: oldest))
        return oldest.id
    }
}

extension Array {
    /// Returns the elements in order, in parts of at most that many.
    func parts(of size: Int) -> [[Element]] {
        stride(from: 0, to: self.count, by: size).map { Array(self[$0..<Swift.min($0 + size, self.count)]) }
    }
}
