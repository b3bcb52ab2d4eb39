package import ApusCore
package import ApusMessages

/// How a registration ended.
package struct RegisterResult: Hashable, Sendable {
    /// What it changed.
    package enum Change: Hashable, Sendable {
        /// The device is new.
        case created
        /// Something but the token is new, or a day has passed.
        case updated
        /// All was as it is, but perhaps the time of the registration.
        case unchanged
        /// The device has another token, provider or environment now.
        case tokenReplaced
        /// The device was registered after the time for which this was meant.
        case ignored
    }

    /// What it changed.
    package var change: Change
    /// The device as it is stored now.
    package var device: StoredDevice

    /// A result.
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
    /// by nobody. A suspicion ends, since the app says that the token is good. The same registration again within a day
    /// is answered without a write. A device stays in the environment in which its provider was found to take its token.
    ///
    /// - Parameter asOf: when this was true; nil: now. A device registered later stays as it is.
    package func register(
        _ app: AppID,
        _ registration: DeviceRegistration,
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
    ) async throws(StoreError) -> RegisterResult {
        var work = try await self.prepare(app, registration, asOf: asOf, condition: condition)
        for _ in 0..<StoreLimits.attemptsMax {
            if let result = try await self.attempt(&work) { return result }
        }
        throw Self.contended
    }

    /// A registration on its way: what was asked, and what has happened so far.
    private struct Registering: Sendable {
        let home: Home
        /// Where the app says that the token is of, or where it was found to be.
        var realm: Realm
        let registration: DeviceRegistration
        let token: [UInt8]
        let topics: [UInt32]?
        let asOf: UnixMilliseconds?
        let condition: DeviceCondition

        /// What the last attempt wanted to store. When it is there at the next one, it was this one's doing.
        var intended: DeviceRecord?
        /// What the first attempt changed: a repetition changes less.
        var change: RegisterResult.Change?
        /// Who was cleared of the token since the last claim; nil: no claim was needed.
        var cleared: [DeviceOwner]?
        /// Tokens and users that the device leaves.
        var departures: [(token: [UInt8], user: String)] = []
    }

    private func prepare(
        _ app: AppID,
        _ registration: DeviceRegistration,
        asOf: UnixMilliseconds?,
        condition: DeviceCondition,
    ) async throws(StoreError) -> Registering {
        let device = try Self.identified(registration)
        let token = try DeviceToken.stored(registration.token, of: registration.provider)
        var topics: [UInt32]?
        if let names = registration.topics {
            let owner = Self.topicOwner(user: registration.user, device: device.text)
            topics = try await self.numbers(app, Self.checked(names), allotTo: owner)
        }
        return Registering(
            home: self.home(app, device),
            realm: Realm(registration.provider, registration.environment),
            registration: registration,
            token: token,
            topics: topics,
            asOf: asOf,
            condition: condition,
        )
    }

    /// One attempt: claim the token and note the user, write the record, confirm the token and note the user again, then
    /// take back what no longer holds.
    ///
    /// - Returns: nil when somebody came between.
    private func attempt(_ work: inout Registering) async throws(StoreError) -> RegisterResult? {
        let (calls, home, token) = (self.calls, work.home, work.token)
        let placedToken = calls.placed(home.app, token)
        let ((current, now), owners) = try await together {
            try await self.readTimed(home)
        } and: {
            try await calls.owners(home.app, placedToken)
        }

        work.realm = Self.realm(of: work.registration, token: token, over: current)
        var stored: StoredDevice
        if let intended = work.intended, let current, current.record == intended, current.realm == work.realm {
            stored = current
        } else {
            if work.intended == nil { try work.condition.check(current) }
            // What the last attempt meant to write is not there: another's write came first, and this is a change of that.
            if work.intended != nil { work.change = nil }
            if let asOf = work.asOf, let current, asOf < current.registeredAt {
                return RegisterResult(change: .ignored, device: current)
            }
            let record = Self.record(
                work.registration,
                token: work.token,
                topics: work.topics,
                realm: work.realm,
                over: current?.record,
                seenAt: min(work.asOf ?? now, now),
                now: now,
            )
            // Only with the record beside it: whoever takes the token must then get past our comparison.
            let isSettled =
                current?.record.token == token
                && owners == [StoreCalls.TokenOwner(isSettled: true, device: home.owner)]
            // By Redis' clock on both sides: a local one may be wrong by any time.
            if let current, isSettled, current.realm == work.realm, current.record == record,
                min(work.asOf ?? now, now).milliseconds(since: current.registeredAt) < StoreLimits.freshMilliseconds
            {
                return RegisterResult(change: work.change ?? .unchanged, device: current)
            }
            let isNewUser = !record.user.isEmpty && record.user != current?.record.user
            (work.cleared, _) = try await together {
                isSettled ? nil : try await self.claim(token, home)
            } and: {
                if isNewUser { try await self.addUser(record.user, home) }
            }
            work.intended = record
            work.change = work.change ?? Self.change(from: current, to: record, work.realm)
            guard let written = try await self.write(record, over: current, work) else {
                if let current { work.departures.append((current.record.token, current.record.user)) }
                return nil
            }
            stored = written
            if let current { work.departures.append((current.record.token, current.record.user)) }
        }

        let (user, cleared) = (stored.record.user, work.cleared)
        let (answer, _) = try await together {
            if let cleared {
                try await calls.confirm(home.app, placedToken, by: home.owner, cleared: cleared)
            } else {
                StoreCalls.ConfirmAnswer.settled
            }
        } and: {
            if !user.isEmpty { try await self.addUser(user, home) }
        }
        switch answer {
        case .settled: break
        case .withdrawn:
            work.intended = nil
            return nil
        case .superseded:
            try await self.yield(token, home)
            throw StoreError(.contended, "another device registered the same token at the same time")
        }
        for departure in work.departures {
            try await self.withdraw(
                token: departure.token == token ? nil : departure.token,
                user: departure.user == user ? nil : departure.user,
                of: home,
            )
        }
        return RegisterResult(change: work.change ?? .updated, device: stored)
    }

    /// The realm that a registration names, or the one that was learnt of its token.
    private static func realm(
        of registration: DeviceRegistration,
        token: [UInt8],
        over current: StoredDevice?,
    ) -> Realm {
        let named = Realm(registration.provider, registration.environment)
        guard let current, current.record.isEnvironmentLearned, current.record.token == token,
            current.realm.provider == named.provider
        else { return named }
        return current.realm
    }

    private func write(
        _ record: DeviceRecord,
        over current: StoredDevice?,
        _ work: Registering,
    ) async throws(StoreError) -> StoredDevice? {
        try await self.write(
            record,
            over: current,
            realm: work.realm,
            home: work.home,
            stamp: work.asOf.map { .asOf($0) } ?? .now,
        )
    }

    /// Writes a record where `current` is.
    ///
    /// - Parameter judges: whether it is a provider's verdict that is written, which a full Redis takes, and for which each record has room.
    /// - Returns: nil when something else is there.
    func write(
        _ record: DeviceRecord,
        over current: StoredDevice?,
        realm: Realm,
        home: Home,
        stamp: StoreCalls.Stamp,
        judges: Bool = false,
    ) async throws(StoreError) -> StoredDevice? {
        let bytes = try Self.encoded(record)
        if !judges { try Self.checkSize(record, bytes.count) }
        let before = current?.record.topics ?? []
        let isMove = current.map { $0.realm != realm } ?? false
        let answer = try await self.calls.put(
            home.app,
            realm,
            home.owner,
            StoreCalls.Writing(
                expected: current?.value ?? [],
                record: bytes,
                stamp: stamp,
                entered: isMove ? record.topics : record.topics.filter { !before.contains($0) },
                left: isMove ? before : before.filter { !record.topics.contains($0) },
                event: self.event(of: record, over: current, stamp)?.bytes ?? [],
            ),
            judges: judges,
        )
        switch answer {
        case .mismatch:
            return nil
        case .written(let ordinal, let header):
            return try StoredDevice(
                app: home.app,
                realm: realm,
                partition: home.owner.partition,
                ordinal: ordinal,
                value: header + bytes,
            )
        }
    }

    /// The id of a registration whose names are in order.
    static func identified(_ registration: DeviceRegistration) throws(StoreError) -> DeviceID {
        do throws(IdentifierError) {
            if !registration.user.isEmpty { _ = try UserID(registration.user) }
            return try DeviceID(registration.device)
        } catch {
            throw StoreError(.invalidRegistration, "\(error)")
        }
    }

    /// Checks that a record leaves room for what providers may say of it. What they have said, and what is kept of a former user, counts for
    /// nothing: everyone may log out.
    static func checkSize(_ record: DeviceRecord, _ byteCount: Int) throws(StoreError) {
        guard byteCount > StoreLimits.registeredRecordBytesMax else { return }
        var plain = record
        plain.formerUser = 0
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

    /// The record that a registration makes of an old one, or of none.
    ///
    /// - Parameters:
    ///   - topics: nil: as they were.
    ///   - seenAt: when the app said so, not later than now.
    static func record(
        _ registration: DeviceRegistration,
        token: [UInt8],
        topics: [UInt32]?,
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
        record.webpushP256DH = registration.webpushP256DH
        record.webpushAuth = registration.webpushAuth
        record.applicationServerKey = registration.applicationServerKey
        record.expiresAtSeconds = registration.expiresAt?.seconds ?? 0
        record.suspicion = nil
        let hours = UInt32(clamping: seenAt.seconds / 3_600)
        // Also when the clock went back: then the old time is of no use.
        let isAhead = Int64(record.seenAtHours) > now.seconds / 3_600
        if isAhead || hours >= record.seenAtHours + StoreLimits.freshHours { record.seenAtHours = hours }
        return record
    }

    private static func change(
        from current: StoredDevice?,
        to record: DeviceRecord,
        _ realm: Realm,
    ) -> RegisterResult.Change {
        guard let current else { return .created }
        guard current.record != record || current.realm != realm else { return .unchanged }
        return current.record.token == record.token && current.realm == realm ? .updated : .tokenReplaced
    }
}
