package import ApusCore
package import ApusMessages

extension DeviceStore {
    /// Replaces attributes, user, or both; nil leaves them. An empty user stands for nobody.
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
        return try await self.change(app, device, asOf: asOf, condition: condition, user: user) { record in
            if let attributes { record.attributes = attributes }
            if let user { record.pass(to: user) }
        }
    }

    /// Applies a change to a device that is not there, in case it was removed on a provider's word: it must not come back as it was before.
    ///
    /// - Parameters:
    ///   - user: the user after the change; nil leaves it.
    ///   - condition: fails if the device is there after all, as `absent` does.
    ///   - edit: returns the attributes after the change.
    package func patchMissing(
        _ app: AppID,
        _ device: DeviceID,
        user: String?,
        condition: DeviceCondition,
        attributes edit: (Attributes) -> Attributes,
    ) async throws(StoreError) -> ChangeResult {
        try await self.change(app, device, asOf: nil, condition: condition, user: user) { record in
            record.attributes = edit(record.attributes)
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
        try await self.change(app, device, asOf: asOf, user: user.text) { $0.pass(to: user.text) }
    }

    /// Takes the device from its user.
    ///
    /// - Parameter user: the user from whom it is taken; the device of another stays. Nil for any user.
    package func unbindUser(
        _ app: AppID,
        _ device: DeviceID,
        from user: UserID? = nil,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.change(app, device, asOf: asOf, user: "") { record in
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

    /// Removes the device from topics.
    package func unsubscribe(
        _ app: AppID,
        _ device: DeviceID,
        from topics: [String],
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        try await self.changeTopics(app, device, left: topics, asOf: asOf)
    }

    /// Adds the device to some topics and removes it from others, in one change.
    ///
    /// - Parameters:
    ///   - replacesAll: true to remove it from all topics that it does not enter.
    ///   - asking: the user whose device asks for it, for whom new topics count; nil for a backend.
    package func changeTopics(
        _ app: AppID,
        _ device: DeviceID,
        replacing replacesAll: Bool = false,
        entered: [String] = [],
        left: [String] = [],
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
        askedBy asking: UserID? = nil,
    ) async throws(StoreError) -> ChangeResult {
        let (entered, left) = (try Self.checked(entered), try Self.checked(left))
        // Topics get numbers only for a device that exists, so that mistyped ids leave nothing behind.
        var owner = TopicOwner.nobody
        if !entered.isEmpty {
            guard let stored = try await self.get(app, device) else {
                try condition.check(nil)
                let home = self.home(app, device)
                if replacesAll || !left.isEmpty {
                    // The topics that it would enter are left out: they may have no numbers.
                    let leaves = Set(try await self.numbers(app, left, allotTo: nil))
                    return try await self.changeOfMissing(home, asOf: asOf, condition) { record in
                        record.topics = replacesAll ? [] : record.topics.filter { !leaves.contains($0) }
                    }
                }
                // It comes back without the topics that it was to enter, which harms nobody.
                let pruned = try await self.prunedDevices(app, home.owner)
                let newer = asOf.flatMap { asOf in pruned.first { asOf <= $0.changedAt } }
                return newer.map { .ignored($0) } ?? .missing
            }
            owner = TopicOwner(device: stored.id, user: "", stored.record, askedBy: asking)
        }
        let new = try await self.numbers(app, entered, allotTo: owner)
        var gone = Set(try await self.numbers(app, left, allotTo: nil))
        if gone.count < left.count { gone.formUnion(try await self.numbersAgain(app, left, of: device)) }
        let leaves = gone
        return try await self.change(app, device, asOf: asOf, condition: condition) { record throws(StoreError) in
            var all = replacesAll ? [] : Set(record.topics).subtracting(leaves)
            all.formUnion(new)
            guard all.count <= Limits.topicsPerDeviceMax else { throw Self.tooManyTopics }
            record.topics = all.sorted()
        }
    }

    /// Returns the result of a change of a device that is not there.
    ///
    /// A device that was removed on a provider's word must not come back as it was before the change, a user above all: then it is forgotten. It
    /// is kept when the change is older than what it has, or changes nothing, as one does that is carried out again, and when whoever asks for it
    /// is another user.
    private func changeOfMissing(
        _ home: Home,
        asOf: UnixMilliseconds?,
        _ condition: DeviceCondition,
        _ edit: (inout DeviceRecord) throws(StoreError) -> Void,
    ) async throws(StoreError) -> ChangeResult {
        var registeredAt: UnixMilliseconds?
        var changesUser = false
        for pruned in try await self.prunedDevices(home.app, home.owner) {
            guard condition.isForOwner(of: pruned) else { return .missing }
            if let asOf, asOf < pruned.changedAt { return .ignored(pruned) }
            var record = pruned.record
            try edit(&record)
            guard record != pruned.record else { return asOf == pruned.record.changedAt ? .ignored(pruned) : .missing }
            registeredAt = max(registeredAt ?? pruned.registeredAt, pruned.registeredAt)
            changesUser = changesUser || record.user != pruned.record.user
        }
        // A change of the user keeps out what is older, as one does of a record that cannot be read; any other one keeps out only the
        // registration that the device had, since a newer one makes the device anew.
        let time = changesUser ? asOf : registeredAt?.advanced(byMilliseconds: 1) ?? asOf
        try await self.forgetPruned(home, asOf: time, forgetsHistory: false)
        return .missing
    }

    /// Reads, decides and writes until no other writer comes between. The time of the registration stays, because only a registration
    /// confirms the token.
    ///
    /// - Parameter user: the user whose device it is by the edit, unless that leaves it to another one; empty: nobody's. Nil when the edit does
    ///   not say it. A master may have lost the hint of a user who has it already.
    func change(
        _ app: AppID,
        _ device: DeviceID,
        asOf: UnixMilliseconds?,
        condition: DeviceCondition = .none,
        user: String? = nil,
        _ edit: (inout DeviceRecord) throws(StoreError) -> Void,
    ) async throws(StoreError) -> ChangeResult {
        let home = self.home(app, device)
        var intended: DeviceRecord?
        var departed: Set<String> = []
        var noted: Set<String> = []
        var displaced: String?
        var isForgotten = false
        var isUnchanged = false
        for _ in 0..<StoreLimits.attemptsMax {
            let (found, now) = try await self.readTimed(home)
            guard let current = found else {
                if intended == nil { try condition.check(nil) }
                for user in departed { try await self.withdraw(token: nil, user: user, of: home) }
                return try await self.changeOfMissing(home, asOf: asOf, condition, edit)
            }
            var stored = current
            // When the desired state is there, an earlier attempt wrote it, although its answer was lost.
            if intended != current.record {
                do throws(StoreError) {
                    try condition.check(current)
                } catch {
                    // An attempt that another writer overtook has noted users.
                    for user in noted.union(departed) { try? await self.withdraw(token: nil, user: user, of: home) }
                    throw error
                }
                if let asOf, asOf < current.changedAt { return .ignored(current) }
                var record = current.record
                try edit(&record)
                // Also of a change that changes nothing: one between the two may be carried out after it. A log-in or log-out without a time is of
                // the present: no command from before it may give the device back, however late that is carried out.
                let (saysUser, time) = (record.user == user, min(asOf ?? now, now))
                if asOf != nil || saysUser, time > current.changedAt { record.changedAt = time }
                // A repetition may come after the user was forgotten.
                let mayLackHint = saysUser && (self.calls.mayLoseHints || asOf != nil)
                if record.user != current.record.user || mayLackHint, !record.user.isEmpty {
                    noted.insert(record.user)
                    switch try await self.addUser(record.user, home, asOf: asOf) {
                    case .added(let lost): displaced = lost ?? displaced
                    case .forgotten where record.user == current.record.user:
                        return try await self.removeWithUser(current, home, noted.union(departed), asOf: asOf)
                    case .forgotten:
                        // The user may have left it before being forgotten, and nothing of the user is stored with it: it becomes nobody's.
                        isForgotten = true
                        departed.insert(record.user)
                        record.pass(to: "")
                    }
                }
                guard record != current.record || isForgotten else { return .unchanged(current) }
                isUnchanged = record.hasSameContent(as: current.record)
                if record.user != current.record.user { departed.insert(current.record.user) }
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
                if !user.isEmpty, case .forgotten = try await self.addUser(user, home, asOf: asOf) {
                    return try await self.removeWithUser(stored, home, noted.union(departed), asOf: asOf)
                }
                for left in departed where left != user { try await self.withdraw(token: nil, user: left, of: home) }
            }
            stored.displaced = displaced
            if isForgotten { return .ignored(stored) }
            return isUnchanged ? .unchanged(stored) : .changed(stored)
        }
        throw Self.contended
    }

    /// Removes a device that is stored as that of a user who was forgotten after the time of the change that says so, too.
    ///
    /// - Parameter users: the users beside whom the device is recorded because of the change.
    private func removeWithUser(
        _ device: StoredDevice,
        _ home: Home,
        _ users: Set<String>,
        asOf: UnixMilliseconds?,
    ) async throws(StoreError) -> ChangeResult {
        if let id = try? DeviceID(device.id) { _ = try await self.delete(home.app, id, asOf: asOf) }
        for user in users { try await self.withdraw(token: nil, user: user, of: home) }
        return .ignored(device)
    }
}

extension DeviceRecord {
    /// Returns true when the other record differs in nothing but the time of its last change.
    func hasSameContent(as other: DeviceRecord) -> Bool {
        var other = other
        other.changedAt = self.changedAt
        return self == other
    }
}
