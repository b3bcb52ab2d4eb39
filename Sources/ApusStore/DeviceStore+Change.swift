package import ApusCore
package import ApusMessages

extension DeviceStore {
    /// Replaces attributes, user, or both; nil leaves them. An empty user is nobody.
    package func patch(
        _ app: AppID,
        _ device: DeviceID,
        attributes: Attributes? = nil,
        user: String? = nil,
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
    ) async throws(StoreError) -> ChangeResult {
        if let user, !user.isEmpty {
            do throws(IdentifierError) {
                _ = try UserID(user)
            } catch {
                throw StoreError(.invalidRegistration, "\(error)")
            }
        }
        return try await self.change(app, device, asOf: asOf, condition: condition) { record in
            if let attributes { record.attributes = attributes }
            if let user { record.pass(to: user) }
        }
    }

    /// Gives the device to a user.
    package func bindUser(
        _ app: AppID,
        _ device: DeviceID,
        _ user: UserID,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.change(app, device, asOf: asOf) { $0.pass(to: user.text) }
    }

    /// Makes the device nobody's.
    ///
    /// - Parameter user: only if it is this user's; nil: whoever's.
    package func unbindUser(
        _ app: AppID,
        _ device: DeviceID,
        from user: UserID? = nil,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.change(app, device, asOf: asOf) { record in
            if user == nil || record.user == user?.text { record.pass(to: "") }
        }
    }

    /// Adds the device to topics.
    package func subscribe(
        _ app: AppID,
        _ device: DeviceID,
        to topics: [String],
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.changeTopics(app, device, entered: topics, asOf: asOf)
    }

    /// Takes the device from topics.
    package func unsubscribe(
        _ app: AppID,
        _ device: DeviceID,
        from topics: [String],
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.changeTopics(app, device, left: topics, asOf: asOf)
    }

    /// Adds the device to some topics and takes it from others, in one change.
    ///
    /// - Parameter replacesAll: whether it leaves all that it does not enter.
    package func changeTopics(
        _ app: AppID,
        _ device: DeviceID,
        replacing replacesAll: Bool = false,
        entered: [String] = [],
        left: [String] = [],
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
    ) async throws(StoreError) -> ChangeResult {
        let (entered, left) = (try Self.checked(entered), try Self.checked(left))
        // Numbers are given only for a device that is there, so that mistyped ids leave nothing behind.
        var owner: [UInt8] = []
        if !entered.isEmpty {
            guard let stored = try await self.get(app, device) else {
                try condition.check(nil)
                return .missing
            }
            owner = stored.topicOwner
        }
        let new = try await self.numbers(app, entered, allotTo: owner)
        let gone = Set(try await self.numbers(app, left, allotTo: nil))
        return try await self.change(app, device, asOf: asOf, condition: condition) { record throws(StoreError) in
            var all = replacesAll ? [] : Set(record.topics).subtracting(gone)
            all.formUnion(new)
            guard all.count <= Limits.topicsPerDeviceMax else { throw Self.tooManyTopics }
            record.topics = all.sorted()
        }
    }

    /// Reads, decides and writes until nobody comes between. Registered-at stays: only a registration speaks for the
    /// token.
    func change(
        _ app: AppID,
        _ device: DeviceID,
        asOf: UnixMilliseconds?,
        condition: DeviceCondition = .none,
        _ edit: (inout DeviceRecord) throws(StoreError) -> Void,
    ) async throws(StoreError) -> ChangeResult {
        let home = self.home(app, device)
        var intended: DeviceRecord?
        var departed: Set<String> = []
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(home) else {
                if intended == nil { try condition.check(nil) }
                for user in departed { try await self.withdraw(token: nil, user: user, of: home) }
                // What the app wants changed, a user above all, must not come back as it was.
                try await self.forgetPruned(home)
                return .missing
            }
            var stored = current
            // What an earlier attempt wanted and is there was its doing, although the answer was lost.
            if intended != current.record {
                if intended == nil { try condition.check(current) }
                if let asOf, asOf < current.registeredAt { return .ignored(current) }
                var record = current.record
                try edit(&record)
                guard record != current.record else { return .unchanged(current) }
                if record.user != current.record.user {
                    if !record.user.isEmpty { try await self.addUser(record.user, home) }
                    departed.insert(current.record.user)
                }
                intended = record
                guard
                    let written = try await self.write(
                        record,
                        over: current,
                        realm: current.realm,
                        home: home,
                        stamp: .keep,
                    )
                else { continue }
                stored = written
            }
            if !departed.isEmpty {
                let user = stored.record.user
                if !user.isEmpty { try await self.addUser(user, home) }
                for left in departed where left != user { try await self.withdraw(token: nil, user: left, of: home) }
            }
            return .changed(stored)
        }
        throw Self.contended
    }
}
