internal import ApusCore
internal import ApusMessages

/// A token has one owner. It changes hands in four steps, each of which may be the last one before a crash: claim it in
/// the token index, clear the records of those who hold it, write the own record, confirm. Until the confirmation the
/// index names all who may hold the token, so the next claim, or the janitor, finds and finishes what was left.
extension DeviceStore {
    /// Claims a token for a device and clears everyone else of it.
    ///
    /// - Returns: the owners that no longer hold it, for the confirmation.
    func claim(_ token: [UInt8], _ home: Home) async throws(StoreError) -> [DeviceOwner] {
        let placed = self.calls.placed(home.app, token)
        for _ in 0..<StoreLimits.attemptsMax {
            switch try await self.calls.claim(home.app, placed, by: home.owner) {
            case .claimed(let others):
                for other in others { try await self.clear(other, of: token, home.app) }
                return others
            case .crowded(let others):
                for other in others {
                    try await self.clear(other, of: token, home.app)
                    try await self.calls.release(home.app, placed, from: other)
                }
            }
        }
        throw StoreError(.contended, "too many devices claim the same token")
    }

    /// Removes the device at an owner's place if its record holds the token.
    func clear(_ owner: DeviceOwner, of token: [UInt8], _ app: AppID) async throws(StoreError) {
        let home = Home(app: app, id: nil, owner: owner)
        for _ in 0..<StoreLimits.attemptsMax {
            guard let device = try await self.read(home), device.record.token == token else { return }
            if try await self.calls.remove(device, owner) {
                return try await self.withdraw(token: nil, user: device.record.user, of: home)
            }
        }
        throw Self.contended
    }

    /// Gives a token up to whoever claimed it later.
    func yield(_ token: [UInt8], _ home: Home) async throws(StoreError) {
        try await self.clear(home.owner, of: token, home.app)
        try await self.withdraw(token: token, user: nil, of: home)
    }

    /// Makes the token index agree with a record: names the device while its record holds the token, and only then.
    func settle(_ token: [UInt8], _ home: Home) async throws(StoreError) {
        let placed = self.calls.placed(home.app, token)
        for _ in 0..<StoreLimits.attemptsMax {
            guard try await self.read(home)?.record.token == token else {
                try await self.calls.release(home.app, placed, from: home.owner)
                guard try await self.read(home)?.record.token == token else { return }
                continue
            }
            let cleared = try await self.claim(token, home)
            switch try await self.calls.confirm(home.app, placed, by: home.owner, cleared: cleared) {
            case .settled:
                guard try await self.read(home)?.record.token != token else { return }
            case .withdrawn:
                continue
            case .superseded:
                try await self.clear(home.owner, of: token, home.app)
            }
        }
        throw Self.contended
    }
}
