package import ApusCore
package import ApusMessages
package import ApusRedis

/// The result of a registration.
package struct RegisterResult: Hashable, Sendable {
    /// The change that it made.
    package enum Change: Hashable, Sendable {
        /// The device is new.
        case created
        /// Something but the token is new, or a day has passed.
        case updated
        /// All was as it is, but perhaps the time of the registration.
        case unchanged
        /// The device has another token, provider or environment now.
        case tokenReplaced
        /// The device was registered, changed or removed after the time for which this was meant, or its user forgotten, or it was registered by
        /// this line of an import.
        case ignored
    }

    /// The change that it made.
    package var change: Change
    /// The device as it is stored now; one that was removed as this would have registered it.
    package var device: StoredDevice
    /// The badge that the device had when it was read; nil when nobody asked for it, or it was not there.
    package var badge: UInt32?

    /// Creates a result.
    package init(change: Change, device: StoredDevice) {
        self.change = change
        self.device = device
    }
}

extension DeviceStore {
    /// Creates or replaces a device.
    ///
    /// The token is the device's from now on: a device that held it is removed. Topics are replaced when the registration
    /// has some, and attributes when it says any; else they stay, also when the token changes. The user is replaced, also
    /// by nobody. A suspicion ends, since the app says that the token is good. The same registration again within a minute
    /// is answered without a write; after it its time is written. A device stays in the environment in which its provider was found to take its token.
    ///
    /// - Parameters:
    ///   - asOf: when this was true; nil: now. A device that was registered or changed later stays as it is. One that was removed later
    ///     is not brought back, for an hour, and one whose user was forgotten later is removed; nor is one brought back that was removed on a
    ///     provider's word with this registration or a later one, for as long as that can be undone.
    ///   - assumedServerKey: the key of a subscription that names none and is not stored with one; empty: it stays unnamed.
    ///   - asking: the user whose device registers itself, for whom new topics count; nil for a backend.
    ///   - changedAt: the time of the last change of the device that it includes, such as a log-in, if that is later than `asOf`: a device that was
    ///     changed later stays as it is.
    ///   - readsBadge: true to read the device's badge, too.
    package func register(
        _ app: AppID,
        _ registration: DeviceRegistration,
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
        assumedServerKey: [UInt8] = [],
        askedBy asking: UserID? = nil,
        changedAt: UnixMilliseconds? = nil,
        readsBadge: Bool = false,
    ) async throws(StoreError) -> RegisterResult {
        var work = [
            try PendingRegistration(
                self.calls,
                app,
                registration,
                asOf: asOf,
                condition: condition,
                assumedServerKey: assumedServerKey,
                askedBy: asking,
            )
        ]
        work[0].changedAt = changedAt
        work[0].readsBadge = readsBadge
        await self.perform(&work, [0])
        var result = try work[0].result.get()
        result.badge = work[0].badge
        return result
    }

    /// Creates or replaces many devices, as registering each by itself would: the calls that go to one partition are one call.
    ///
    /// Registrations of the same device, or of the same token, are carried out in their order; those of others at the same time, and a device
    /// that gives its token to another one of them keeps what it has. One that fails stops no other. A line of an import is `ignored` when the
    /// line of its device that was taken last has its time and token, as it would be in a later call. A device that loses its token to such a line
    /// may come back in a later call, with another token, as of an earlier time.
    ///
    /// - Parameters:
    ///   - times: when each of them was true, as for one registration; none: all are of now.
    ///   - changes: when the device was last changed, for each of them, as for one registration; none: none includes a change.
    ///   - assumedServerKey: as for one registration.
    ///   - importing: the part of a line of an import that each of them is, nil for anything else; none: none is one.
    /// - Returns: the results in the order of the registrations.
    package func register(
        _ app: AppID,
        _ registrations: [DeviceRegistration],
        asOf times: [UnixMilliseconds?] = [],
        changedAt changes: [UnixMilliseconds?] = [],
        assumedServerKey: [UInt8] = [],
        importing: [ImportedPart?] = [],
    ) async -> [Result<RegisterResult, StoreError>] {
        precondition(times.isEmpty || times.count == registrations.count, "each registration has a time, or none has")
        var work: [PendingRegistration] = []
        work.reserveCapacity(registrations.count)
        var refused: [Int: StoreError] = [:]
        var rounds: [[Int]] = []
        var nextRoundOfDevice: [DeviceOwner: Int] = [:]
        var nextRoundOfToken: [StoreCalls.Placed: Int] = [:]
        for (index, registration) in registrations.enumerated() {
            let part = importing.isEmpty ? nil : importing[index]
            do throws(StoreError) {
                var new = try PendingRegistration(
                    self.calls,
                    app,
                    registration,
                    asOf: times.isEmpty ? nil : times[index],
                    condition: part == .newDevice ? .absent : .none,
                    assumedServerKey: assumedServerKey,
                )
                new.changedAt = changes.isEmpty ? nil : changes[index]
                new.importedPart = part
                let (device, token) = (new.home.owner, new.placedToken)
                let round = max(nextRoundOfDevice[device] ?? 0, nextRoundOfToken[token] ?? 0)
                nextRoundOfDevice[device] = round + 1
                nextRoundOfToken[token] = round + 1
                if rounds.count == round { rounds.append([]) }
                rounds[round].append(work.count)
                work.append(new)
            } catch {
                refused[index] = error
            }
        }
        var taken: [DeviceOwner: PendingRegistration] = [:]
        for round in rounds {
            for index in round where work[index].importedPart != nil {
                if let earlier = taken[work[index].home.owner] { work[index].ignoreRepetition(of: earlier) }
            }
            await self.perform(&work, round)
            for index in round where work[index].importedPart != nil {
                guard case .success(let result)? = work[index].outcome, result.change != .ignored else { continue }
                taken[work[index].home.owner] = work[index]
            }
        }
        var results = work.makeIterator()
        return registrations.indices.map { index in
            if let error = refused[index] { return .failure(error) }
            guard let next = results.next() else { preconditionFailure("each registration has a result") }
            return next.result
        }
    }

    // MARK: Slots

    /// Returns the slots in which a registration leaves something: the record, whose the token is, the user's devices, the numbers of
    /// topics. Masters of a cluster lose writes apart, so that each of them must have kept its part. The records of those who had the token
    /// before are not among them: ``replicaWaits`` is for these.
    package func slots(_ app: AppID, changedBy registration: DeviceRegistration) -> [HashTag] {
        var slots = self.slots(
            app,
            changedFor: registration.device,
            user: registration.user,
            topics: registration.topics ?? [],
        )
        if let token = try? DeviceToken.stored(registration.token, of: registration.provider) {
            slots.append(self.keys.tag(self.calls.placed(app, token).partition))
        }
        return slots
    }

    /// Returns the slots in which a change of a device leaves something.
    ///
    /// - Parameters:
    ///   - user: the user who gets the device; empty: none does.
    ///   - topics: the topics that it enters.
    package func slots(
        _ app: AppID,
        changedFor device: String,
        user: String = "",
        topics: [String] = [],
    ) -> [HashTag] {
        let ids = [device] + (user.isEmpty ? [] : [user]) + topics
        return ids.map { self.keys.tag(self.calls.placed(app, $0).partition) }
    }

    /// All slots of devices: a change of a user's devices may leave something in any of them.
    package var allSlots: [HashTag] { (0..<self.keys.keyspace.devicePartitions).map { self.keys.tag($0) } }

    // MARK: The steps

    /// A topic that devices are to enter, and its place.
    private typealias WantedTopic = (name: TopicName, placed: StoreCalls.Placed)

    /// Begins to look up the numbers of the topics that registrations want: one call for each partition of their names.
    private func beginTopics(
        _ work: [PendingRegistration],
        _ indices: [Int],
        _ app: AppID,
    ) -> GroupedCalls<WantedTopic, UInt32?> {
        let calls = self.calls
        var names: Set<TopicName> = []
        for index in indices where work[index].topics == nil { names.formUnion(work[index].topicNames ?? []) }
        let wanted = names.map { (name: $0, placed: calls.placed(app, $0.text)) }
        return GroupedCalls(calls, wanted, by: \.placed.partition) { partition, topics in
            calls.findTopics(app, partition, topics.map { ($0.name, $0.placed.digest) })
        }
    }

    /// Gives the topics of registrations their numbers as they were looked up; those without a number get one.
    private func number(
        _ work: inout [PendingRegistration],
        _ indices: [Int],
        _ wanted: [WantedTopic],
        _ found: [Result<UInt32?, StoreError>],
    ) async {
        guard let app = indices.first.map({ work[$0].home.app }) else { return }
        var numbers: [TopicName: UInt32] = [:]
        var errors: [TopicName: StoreError] = [:]
        for (topic, result) in zip(wanted, found) {
            switch result {
            case .success(let number): numbers[topic.name] = number
            case .failure(let error): errors[topic.name] = error
            }
        }
        // An owner's registrations keep their order: the first ones have the room.
        var newTopics: [TopicOwner: [TopicName]] = [:]
        var seen: Set<TopicName> = []
        for index in indices where work[index].topics == nil {
            for name in work[index].topicNames ?? []
            where numbers[name] == nil && errors[name] == nil && seen.insert(name).inserted {
                newTopics[work[index].topicOwner, default: []].append(name)
            }
        }
        let allotted = try? await forEachConcurrently(Array(newTopics)) { owner, names in
            var results: [(TopicName, Result<UInt32, StoreError>)] = []
            for name in names {
                do throws(StoreError) {
                    results.append((name, .success(try await self.allotNumber(app, name, to: owner))))
                } catch {
                    results.append((name, .failure(error)))
                    guard error.code == .topicLimit else { return results }
                }
            }
            return results
        }
        for (name, result) in (allotted ?? []).joined() {
            switch result {
            case .success(let number): numbers[name] = number
            // The next device that wants it may have room for it.
            case .failure(let error): if error.code != .topicLimit { errors[name] = error }
            }
        }
        for index in indices {
            guard let names = work[index].topicNames, work[index].topics == nil else { continue }
            if let error = names.lazy.compactMap({ errors[$0] }).first {
                work[index].outcome = .failure(error)
                continue
            }
            do throws(StoreError) {
                for name in names where numbers[name] == nil {
                    numbers[name] = try await self.allotNumber(app, name, to: work[index].topicOwner)
                }
                work[index].topics = names.compactMap { numbers[$0] }.sorted()
            } catch {
                work[index].outcome = .failure(error)
            }
        }
    }

    /// Carries out registrations of different devices and tokens, and tries again those to which somebody came between.
    private func perform(_ work: inout [PendingRegistration], _ indices: [Int]) async {
        var open = indices.filter { work[$0].outcome == nil }
        // One of those that are open waits for nobody, so each turn uses up an attempt of one of them.
        while !open.isEmpty {
            await self.attempt(&work, open)
            for index in open { work[index].endAttempt() }
            open.removeAll { work[$0].outcome != nil }
        }
    }

    /// One attempt: read, claim the token and note the user, write the record, confirm the token and note the user again, then
    /// take back what no longer holds. Each step is for all registrations that need it. Those without an outcome afterwards are to be tried
    /// again: somebody came between.
    ///
    /// The first attempt looks up topics and claims tokens while it reads, but leaves tokens alone that others own: a claim of such a token may
    /// cost its owner something, and waits until it is known that this registration may be carried out.
    private func attempt(_ work: inout [PendingRegistration], _ indices: [Int]) async {
        let calls = self.calls
        let app = work[indices[0]].home.app

        let withBadges = work[indices[0]].readsBadge
        var reads = GroupedCalls(calls, indices.map { work[$0].home }, by: \.owner.partition) { _, homes in
            self.reading(homes, devicesPerApp: self.devicesPerApp, withBadges: withBadges)
        }
        var lookups = self.beginTopics(work, indices, app)
        let early = indices.filter { work[$0].isFirstAttempt }
        var claims = GroupedCalls(calls, early.map { work[$0].claimed }, by: \.token.partition) { partition, claims in
            calls.claim(app, partition, claims.map { ($0.token.digest, $0.device) }, leavesOwned: true)
        }
        for (index, result) in zip(indices, await reads.answers()) {
            work[index].complete { state throws(StoreError) in
                let reading = try result.get()
                let device = try reading.device.get()
                state.badge = reading.badge
                try state.take(device, at: reading.at)
                // Before anything is taken from another device.
                if device == nil, !reading.hasRoom { throw self.noRoom(in: app) }
            }
        }
        // Topics get numbers only for a registration that may be carried out.
        let found = await lookups.answers()
        let deciding = indices.filter { work[$0].step == .decide && work[$0].outcome == nil }
        await self.number(&work, deciding, lookups.elements, found)
        for (index, result) in zip(early, await claims.answers()) {
            // A claim without an answer is made by its own step.
            work[index].earlyClaim = try? result.get()
        }
        for index in indices where work[index].step == .decide {
            work[index].complete { state throws(StoreError) in try state.decide(self.calls) }
        }

        // A registration that seems unchanged is answered if the token is the device's alone, and its user is known to have it.
        // A repetition may come after the user was forgotten.
        await self.noteUsers(&work, indices) { $0.step == .compare && (calls.mayLoseHints || $0.asOf != nil) }
        for index in indices where work[index].outcome == nil { work[index].takeEarlyClaim() }
        // swift-format-ignore: OnlyOneTrailingClosureArgument
        await self.step(&work, indices, if: { $0.step == .compare }, by: \.placedToken.partition) { partition, works in
            calls.areSettled(app, partition, works.map { ($0.placedToken.digest, $0.home.owner) })
        } then: { state, isSettled throws(StoreError) in
            state.compare(isSettled: isSettled)
        }

        // Claim tokens, and note users.
        // swift-format-ignore: OnlyOneTrailingClosureArgument
        await self.step(&work, indices, if: { $0.step == .claim }, by: \.placedToken.partition) {
            partition,
            works in
            calls.claim(app, partition, works.map { ($0.placedToken.digest, $0.home.owner) })
        } then: { state, claim throws(StoreError) in
            state.take(claim)
        }
        self.letWait(&work, indices)
        for index in indices where work[index].step == .claimAlone {
            await work[index].completeWaiting { state throws(StoreError) in
                state.cleared = try await self.claim(
                    state.token,
                    state.home,
                    asOf: state.claimTime,
                    // The holder may have a line of its own further on, of an earlier time, with the token that it has since.
                    isRemembered: state.importedPart == nil,
                )
                state.step = state.cleared == nil ? .withdraw : .write
            }
        }
        await self.noteUsers(&work, indices) { $0.step == .write && $0.isNewUser }

        // Write.
        if indices.count == 1 { await self.writeAndConfirm(&work[indices[0]]) }
        // swift-format-ignore: OnlyOneTrailingClosureArgument
        await self.step(
            &work,
            indices,
            if: { $0.step == .write },
            by: \.home.owner.partition,
            bytes: { $0.writtenBytes }
        ) {
            partition,
            works in
            calls.put(app, partition, works.map { ($0.realm, $0.home.owner, self.writing($0)) })
        } then: { state, answer throws(StoreError) in
            try state.take(answer)
        }

        // Confirm tokens, and note users once more.
        // swift-format-ignore: OnlyOneTrailingClosureArgument
        await self.step(
            &work,
            indices,
            if: { $0.step == .confirm && $0.confirmation == nil && $0.cleared?.isEmpty ?? false },
            by: \.placedToken.partition,
        ) { partition, works in
            calls.confirm(app, partition, works.map { ($0.placedToken.digest, $0.home.owner) })
        } then: { state, answer throws(StoreError) in
            state.confirmation = answer
        }
        let takers = indices.filter {
            work[$0].outcome == nil && work[$0].step == .confirm && !(work[$0].cleared?.isEmpty ?? true)
        }
        for (index, answer) in zip(takers, await self.confirmTaken(takers.map { work[$0] })) {
            work[index].complete { state throws(StoreError) in state.confirmation = try answer.get() }
        }
        await self.noteUsers(&work, indices) { $0.step == .confirm && !$0.isUserNoted }
        for index in indices where work[index].step == .confirm {
            await work[index].completeWaiting { state throws(StoreError) in try await self.finish(&state) }
        }
        for index in indices where work[index].step == .withdraw {
            await work[index].completeWaiting { state throws(StoreError) in
                let user = state.registration.user
                try await self.withdraw(token: state.token, user: user.isEmpty ? nil : user, of: state.home)
                state.outcome = .success(RegisterResult(change: .ignored, device: try state.unstored()))
            }
        }
        // A registration that was refused, and so takes nothing. Without an answer there is a hint left, as after a crash.
        for index in indices where work[index].hasUnusedClaim {
            work[index].earlyClaim = nil
            try? await self.withdraw(token: work[index].token, user: nil, of: work[index].home)
        }
        for index in indices where work[index].hasLostRace {
            // The token may be claimed for the same device by the one that came first.
            work[index].intended = nil
            try? await self.withdraw(token: nil, user: work[index].registration.user, of: work[index].home)
        }
    }

    /// Lets registrations wait whose tokens other devices of the call have. These may be about to give them up by themselves: then nothing of them
    /// must be removed. Of those that all wait for one another the earlier ones come first.
    private func letWait(_ work: inout [PendingRegistration], _ indices: [Int]) {
        let open = indices.filter { work[$0].outcome == nil }
        let devices = Set(open.map { work[$0].home.owner })
        let takers = open.filter { work[$0].step == .claimAlone && work[$0].others.contains(where: devices.contains) }
        var awaited = takers.count < open.count ? devices : []
        for index in takers {
            if work[index].others.contains(where: awaited.contains) { work[index].step = .wait }
            awaited.insert(work[index].home.owner)
        }
    }

    /// Writes the record of one registration, confirms its token and notes its user once more, all in one go, where one server has all of
    /// that. What comes after the record is carried out after it, or has no answer and is left to a step of its own. When the write of the
    /// record has none, the token may be confirmed without it: so the next attempt claims it again before it writes.
    private func writeAndConfirm(_ work: inout PendingRegistration) async {
        guard work.outcome == nil, work.step == .write, work.cleared?.isEmpty ?? true else { return }
        let (calls, app, owner) = (self.calls, work.home.app, work.home.owner)
        let put = calls.put(app, owner.partition, [(work.realm, owner, self.writing(work))])
        let confirm = work.cleared.map { _ in
            calls.confirm(app, work.placedToken.partition, [(work.placedToken.digest, owner)])
        }
        let time = work.changeTime
        let addUser = work.placedUser.map { calls.addUsers(app, $0.partition, [($0.digest, owner, time)]) }
        guard confirm != nil || addUser != nil, let pending = calls.beginInOrder(put, confirm, addUser) else { return }
        do throws(StoreError) {
            let answers = try await pending.0.answer()
            work.complete { state throws(StoreError) in try state.take(answers[0]) }
        } catch {
            work.complete { state throws(StoreError) in
                guard error.disposition.isOutage else { throw error }
                try state.take(.mismatch)
            }
        }
        guard work.outcome == nil, work.step == .confirm else { return }
        work.confirmation = try? await pending.1?.answer().first
        work.isUserNoted = (try? await pending.2?.answer().first) == .added
    }

    /// Confirms tokens that others had, beside each other: each waits for the removal of its former owners.
    private func confirmTaken(
        _ works: [PendingRegistration]
    ) async -> [Result<StoreCalls.ConfirmAnswer, StoreError>] {
        guard !works.isEmpty else { return [] }
        let answers = try? await forEachConcurrently(works) { work -> Result<StoreCalls.ConfirmAnswer, StoreError> in
            do throws(StoreError) {
                return .success(try await self.confirm(work.placedToken, work.home, work.cleared ?? ClearedOwners()))
            } catch {
                return .failure(error)
            }
        }
        guard let answers else { preconditionFailure("an error is an answer here") }
        return answers
    }

    /// Adds the devices of registrations to those of their users, where the condition holds. A registration that is older than the removal of its
    /// user is carried out before that: its device is removed.
    private func noteUsers(
        _ work: inout [PendingRegistration],
        _ indices: [Int],
        if condition: (PendingRegistration) -> Bool,
    ) async {
        let calls = self.calls
        guard let app = indices.first.map({ work[$0].home.app }) else { return }
        var refused: [Int] = []
        let chosen = indices.filter {
            work[$0].outcome == nil && work[$0].placedUser != nil && condition(work[$0])
        }
        let users = chosen.compactMap { index in
            work[index].placedUser.map { ($0, work[index].home.owner, work[index].changeTime) }
        }
        var added = GroupedCalls(calls, users, by: \.0.partition) { partition, users in
            calls.addUsers(app, partition, users.map { ($0.0.digest, $0.1, $0.2) })
        }
        for (index, answer) in zip(chosen, await added.answers()) {
            work[index].complete { _ throws(StoreError) in
                if try answer.get() != .added { refused.append(index) }
            }
        }
        for index in refused {
            await work[index].completeWaiting { state throws(StoreError) in
                switch try await self.addUser(state.registration.user, state.home, asOf: state.changeTime) {
                case .added(let displaced): state.displaced = displaced
                case .forgotten: try await self.removeWithUser(&state)
                }
            }
        }
    }

    /// Removes the device of a registration whose user was forgotten after its time.
    private func removeWithUser(_ work: inout PendingRegistration) async throws(StoreError) {
        let device = try Self.identified(work.registration)
        _ = try await self.delete(work.home.app, device, asOf: work.changeTime)
        for departure in work.departures {
            try await self.withdraw(token: departure.token, user: departure.user, of: work.home)
        }
        work.step = .withdraw
    }

    /// Ends an attempt whose record is there.
    private func finish(_ work: inout PendingRegistration) async throws(StoreError) {
        guard var stored = work.stored else { preconditionFailure("the record is there") }
        stored.displaced = work.displaced
        let (home, token, user) = (work.home, work.token, stored.record.user)
        switch work.cleared == nil ? .settled : work.confirmation {
        case .settled: break
        case .withdrawn:
            (work.written, work.intended) = (work.intended, nil)
            return
        case .superseded:
            try await self.yield(token, home, asOf: work.storedTime, isRemembered: true)
            throw StoreError(.contended, "another device registered the same token at the same time")
        case nil: preconditionFailure("the claim was confirmed")
        }
        for departure in work.departures {
            try await self.withdraw(
                token: departure.token == token ? nil : departure.token,
                user: departure.user == user ? nil : departure.user,
                of: home,
            )
        }
        work.outcome = .success(RegisterResult(change: work.change ?? .updated, device: stored))
    }

    /// Performs one step of those registrations for which the condition holds, one call for each partition.
    private func step<Answer: Sendable>(
        _ work: inout [PendingRegistration],
        _ indices: [Int],
        if condition: (PendingRegistration) -> Bool,
        by partition: (PendingRegistration) -> Int,
        bytes: (PendingRegistration) -> Int = { _ in 0 },
        _ call: @escaping (Int, [PendingRegistration]) -> StoreCalls.UnsentCall<[Answer]>,
        then body: (inout PendingRegistration, Answer) throws(StoreError) -> Void,
    ) async {
        let chosen = indices.filter { work[$0].outcome == nil && condition(work[$0]) }
        guard !chosen.isEmpty else { return }
        var calls = GroupedCalls(self.calls, chosen.map { work[$0] }, by: partition, bytes: bytes, call)
        for (index, answer) in zip(chosen, await calls.answers()) {
            work[index].complete { state throws(StoreError) in try body(&state, try answer.get()) }
        }
    }

    // MARK: The record

    /// Returns the write that a registration asks for in its step `write`.
    private func writing(_ work: PendingRegistration) -> StoreCalls.Writing {
        guard let record = work.record else { preconditionFailure("there is a record to write") }
        return self.writing(
            record,
            work.encoded,
            over: work.current,
            realm: work.realm,
            stamp: work.storedTime.map { .asOf($0) } ?? .now,
        )
    }

    private func writing(
        _ record: DeviceRecord,
        _ bytes: [UInt8],
        over current: StoredDevice?,
        realm: Realm,
        stamp: StoreCalls.Stamp,
    ) -> StoreCalls.Writing {
        let before = current?.record.topics ?? []
        let isMove = current.map { $0.realm != realm } ?? false
        return StoreCalls.Writing(
            expected: current?.value ?? [],
            record: bytes,
            stamp: stamp,
            entered: isMove ? record.topics : record.topics.filter { !before.contains($0) },
            left: isMove ? before : before.filter { !record.topics.contains($0) },
            event: self.event(of: record, over: current, stamp)?.bytes ?? [],
        )
    }

    /// Writes a record where `current` is.
    ///
    /// - Parameters:
    ///   - isVerdict: whether it is a provider's verdict that is written, which a full Redis takes, and for which each record has room.
    ///   - pruned: the header and record that must be kept of the removed device; empty: none need be.
    /// - Returns: nil when something else is there, or is kept.
    func write(
        _ record: DeviceRecord,
        over current: StoredDevice?,
        realm: Realm,
        home: Home,
        stamp: StoreCalls.Stamp,
        isVerdict: Bool = false,
        pruned: [UInt8] = [],
    ) async throws(StoreError) -> StoredDevice? {
        let packed = try Self.encoded(record)
        if !isVerdict { try Self.checkSize(record, packed.count) }
        let bytes = try self.calls.sealed(packed, of: home.app)
        var writing = self.writing(record, bytes, over: current, realm: realm, stamp: stamp)
        writing.pruned = pruned
        let answer = try await self.calls.put(home.app, realm, home.owner, writing, isVerdict: isVerdict)
        switch answer {
        case .mismatch:
            return nil
        case .gone: preconditionFailure("a record is written over another, or without a time")
        case .full:
            throw Self.full(home)
        case .failed(let reason):
            throw StoreError(.corrupt, reason)
        case .written(let ordinal, let header):
            return try StoredDevice(home.app, realm, home.owner.partition, ordinal, header, record, bytes)
        }
    }

    private func noRoom(in app: AppID) -> StoreError {
        let most = self.devicesPerApp.map { "\($0)" } ?? "no"
        return StoreError(
            .deviceLimit,
            "the app \(app) has as many devices as it may: registration.devices_per_app is \(most)",
        )
    }

    static func full(_ home: Home) -> StoreError {
        StoreError(.full, "partition \(home.owner.partition) has no ordinal left")
    }

    /// Returns the id of a registration whose names are valid.
    static func identified(_ registration: DeviceRegistration) throws(StoreError) -> DeviceID {
        do throws(IdentifierError) {
            if !registration.user.isEmpty { _ = try UserID(registration.user) }
            return try DeviceID(registration.device)
        } catch {
            throw StoreError(.invalidRegistration, "\(error)")
        }
    }

    /// Checks that a record leaves room for what providers may say of it. What they have said, and what is kept of a former user, counts
    /// for nothing: everyone may log out.
    static func checkSize(_ record: DeviceRecord, _ byteCount: Int) throws(StoreError) {
        guard byteCount > StoreLimits.registeredRecordBytesMax else { return }
        var plain = record
        plain.formerUser = 0
        plain.changedAt = UnixMilliseconds(0)
        plain.suspicion = nil
        plain.isEnvironmentLearned = false
        for index in plain.secondary.indices {
            plain.secondary[index].isSuspect = false
            plain.secondary[index].isOfOtherEnvironment = false
        }
        let plainCount = try Self.encoded(plain).count
        guard plainCount > StoreLimits.registeredRecordBytesMax else { return }
        throw StoreError(
            .invalidRegistration,
            "the device's token, user, topics, attributes and addresses come to \(plainCount) bytes; "
                + "at most \(StoreLimits.registeredRecordBytesMax) are taken: give it fewer tags, topics or addresses",
        )
    }

    static func encoded(_ record: DeviceRecord) throws(StoreError) -> [UInt8] {
        do throws(MessageError) {
            return try record.encode()
        } catch {
            throw StoreError(.invalidRegistration, "\(error)")
        }
    }

    /// Returns the record that a registration makes of an old one, or of none.
    ///
    /// - Parameters:
    ///   - topics: nil: as they were.
    ///   - assumedServerKey: the key of a subscription that names none, unless the old record has that of the same subscription.
    ///   - seenAt: when the app said so, not later than now.
    static func record(
        _ registration: DeviceRegistration,
        token: [UInt8],
        topics: [UInt32]?,
        assumedServerKey: [UInt8] = [],
        realm: Realm,
        over old: DeviceRecord?,
        seenAt: UnixMilliseconds,
        now: UnixMilliseconds,
    ) -> DeviceRecord {
        var record = old ?? DeviceRecord(device: registration.device, token: token)
        if record.token != token || record.environment != realm.environment { record.isEnvironmentLearned = false }
        record.token = token
        record.environment = realm.environment
        record.tokenKind = registration.tokenKind
        record.pass(to: registration.user)
        record.dropAddresses(of: realm, now: now)
        if let topics { record.topics = topics }
        if registration.attributes != Attributes() { record.attributes = registration.attributes }
        record.setRecipientKeys(of: registration, assumedServerKey: assumedServerKey, over: old)
        record.expiresAtSeconds = registration.expiresAt?.seconds ?? 0
        record.changedAt = UnixMilliseconds(0)
        record.suspicion = nil
        let hours = UInt32(clamping: seenAt.seconds / 3_600)
        // This holds also when the clock went back: then the old time is of no use.
        let isAhead = Int64(record.seenAtHours) > now.seconds / 3_600
        if isAhead || hours >= record.seenAtHours + StoreLimits.freshHours { record.seenAtHours = hours }
        return record
    }
}
