internal import ApusCore
internal import ApusMessages

extension DeviceStore {
    /// The part of a line of an import that a registration is. A line may come again: a device that was registered with that token, and changed
    /// last, at the line's very times stays as it is, whatever was changed without a time since, and the change is `ignored`.
    package enum ImportedPart: Hashable, Sendable {
        /// All of the line.
        case whole
        /// The beginning of the line. It is stored as of a moment before its time, so that a repetition carries the line out again until a registration
        /// of its time has ended it.
        case beginning
        /// All of a line without a time that only creates a device: if it is there, the error is `preconditionFailed`, and if another one has its
        /// token, that keeps it, and the change is `ignored`.
        case newDevice
    }

    /// A registration on its way: what was asked, and what has happened so far. Pure: `DeviceStore` performs the steps and reports what
    /// came of them.
    struct PendingRegistration: Sendable {
        /// The steps of an attempt: each says what is to be done next.
        enum Step: Hashable, Sendable {
            /// The device was not read yet. Can transition to: decide, confirm.
            case read
            /// The caller must decide what is to be stored. Can transition to: compare, claim.
            case decide
            /// The record is as it should be, if the token is the device's alone. Can transition to: claim, withdraw.
            case compare
            /// The token must be claimed. Can transition to: claimAlone, write.
            case claim
            /// The token must be claimed by itself, because other devices have it or had it. Can transition to: wait, write, withdraw.
            case claimAlone
            /// The claim and the note of the user must be taken back: the device was removed, its user forgotten, or the token registered by
            /// another one, after the time of this registration; or the token is left to another one.
            case withdraw
            /// The token is of a device with an earlier registration beside this one, which comes first. Can transition to: read.
            case wait
            /// The record must be written. Can transition to: read, confirm, withdraw.
            case write
            /// The record is there. Can transition to: read, withdraw.
            case confirm
        }

        let home: Home
        let registration: DeviceRegistration
        let token: [UInt8]
        let placedToken: StoreCalls.Placed
        /// The place of the user; nil when the device has none.
        let placedUser: StoreCalls.Placed?
        /// Names of the topics, ascending; nil: the topics stay as they are.
        let topicNames: [TopicName]?
        let asOf: UnixMilliseconds?
        let condition: DeviceCondition
        /// The key of a subscription that names none and is not stored with one.
        let assumedServerKey: [UInt8]
        /// The user whose device registers itself; nil for a backend.
        let asking: UserID?

        /// Numbers of the topics, ascending.
        var topics: [UInt32]?
        /// The time of the last change of the device that it includes, if that is later than `asOf`; nil: there is none.
        var changedAt: UnixMilliseconds?
        /// The part of a line of an import that it is; nil for anything else.
        var importedPart: ImportedPart?
        /// True to read the device's badge, too.
        var readsBadge = false
        /// The badge that the device had when it was read; nil when it was not read.
        var badge: UInt32?
        /// The id of the device that the user lost for this one; nil when there was room.
        var displaced: String?
        /// The result; nil as long as there is none.
        var outcome: Result<RegisterResult, StoreError>?

        // MARK: State of one attempt

        var step = Step.read
        /// The provider and environment that the app names for the token, or in which the device was found.
        var realm: Realm
        /// The device as it was read.
        var current: StoredDevice?
        /// The time of that read, by Redis' clock.
        var readAt = UnixMilliseconds(0)
        /// The record to write, and its bytes.
        var record: DeviceRecord?
        var encoded: [UInt8] = []
        /// The device as it was written.
        var stored: StoredDevice?
        /// The answer of the call that confirms the token; nil: it has none yet.
        var confirmation: StoreCalls.ConfirmAnswer?
        /// True when the user is known to have the device since its record was written.
        var isUserNoted = false
        /// The answer to the claim that was made while the device was read; nil: there is none, or it was taken up.
        var earlyClaim: StoreCalls.ClaimAnswer?

        // MARK: State of all attempts

        /// The record that the last attempt wanted to store. When the next attempt finds it, this registration has written it.
        var intended: DeviceRecord?
        /// The record that an attempt has written, whose claim of the token was withdrawn since: the next one begins anew over it.
        var written: DeviceRecord?
        /// The change that the first attempt made: a repetition changes less.
        var change: RegisterResult.Change?
        /// The other devices that have the token or have claimed it, as the last claim found them.
        var others: [DeviceOwner] = []
        /// The number of attempts that are used up.
        private var attempts = 0
        /// The devices that lost the token since the last claim; nil when no claim was needed.
        var cleared: ClearedOwners?
        /// Tokens and users that the device leaves.
        var departures: [(token: [UInt8], user: String)] = []

        /// Checks what was asked.
        init(
            _ calls: StoreCalls,
            _ app: AppID,
            _ registration: DeviceRegistration,
            asOf: UnixMilliseconds?,
            condition: DeviceCondition,
            assumedServerKey: [UInt8],
            askedBy asking: UserID? = nil,
        ) throws(StoreError) {
            let device = try DeviceStore.identified(registration)
            let placed = calls.placed(app, device.text)
            let owner = DeviceOwner(partition: placed.partition, digest: placed.digest)
            self.home = Home(app: app, id: device.text, owner: owner)
            self.token = try DeviceToken.stored(registration.token, of: registration.provider)
            self.placedToken = calls.placed(app, self.token)
            self.placedUser = registration.user.isEmpty ? nil : calls.placed(app, registration.user)
            self.topicNames = try registration.topics.map { names throws(StoreError) in try DeviceStore.checked(names) }
            self.registration = registration
            self.realm = Realm(registration.provider, registration.environment)
            self.asOf = asOf
            self.condition = condition
            self.assumedServerKey = assumedServerKey
            self.asking = asking
        }

        /// True before an attempt has ended.
        var isFirstAttempt: Bool { self.attempts == 0 && self.intended == nil }

        /// The time of its claim to the token: devices that were registered later keep it; nil when all lose it.
        var claimTime: UnixMilliseconds? { self.importedPart == .newDevice ? UnixMilliseconds(0) : self.asOf }

        /// The time of the last change that it includes: a device that was changed later stays, and a user who was forgotten later gets none. Nil: the
        /// present.
        var changeTime: UnixMilliseconds? { self.asOf.map { max($0, self.changedAt ?? $0) } }

        /// The time as of which it is stored; nil: the present.
        var storedTime: UnixMilliseconds? {
            self.importedPart == .beginning ? self.asOf?.advanced(byMilliseconds: -1) : self.asOf
        }

        /// The token and who claims it.
        var claimed: (token: StoreCalls.Placed, device: DeviceOwner) { (self.placedToken, self.home.owner) }

        /// True when it has ended with a claim that it did not use.
        var hasUnusedClaim: Bool {
            guard self.outcome != nil, case .claimed = self.earlyClaim else { return false }
            return true
        }

        /// True when an attempt has noted the user, and the next one found a record that the condition excludes.
        var hasLostRace: Bool {
            guard case .failure(let error)? = self.outcome, self.intended != nil else { return false }
            return error.code == .preconditionFailed || error.code == .foreign
        }

        /// The result of a registration that has ended.
        var result: Result<RegisterResult, StoreError> {
            guard let outcome = self.outcome else { preconditionFailure("a registration ends") }
            return outcome
        }

        /// The owner of topics that come up with it.
        var topicOwner: TopicOwner {
            TopicOwner(
                device: self.registration.device,
                user: self.registration.user,
                self.current?.record,
                askedBy: self.asking,
            )
        }

        /// True when the user's devices must include this one before the record names the user.
        var isNewUser: Bool { self.placedUser != nil && self.record?.user != self.current?.record.user }

        /// Bytes that the call which writes the record has of it, roughly.
        var writtenBytes: Int { self.encoded.count + (self.current?.value.count ?? 0) }

        /// Ends an attempt: what has no outcome is tried again, up to `StoreLimits.attemptsMax` times beside those in which it had to wait.
        mutating func endAttempt() {
            guard self.outcome == nil else { return }
            if self.step != .wait { self.attempts += 1 }
            self.step = .read
            self.confirmation = nil
            self.isUserNoted = false
            if self.attempts == StoreLimits.attemptsMax { self.outcome = .failure(DeviceStore.contended) }
        }

        /// Takes a step; an error is how the registration ends.
        mutating func complete(_ body: (inout PendingRegistration) throws(StoreError) -> Void) {
            guard self.outcome == nil else { return }
            do throws(StoreError) { try body(&self) } catch { self.outcome = .failure(error) }
        }

        /// Takes a step that waits; an error is how the registration ends.
        mutating func completeWaiting(_ body: (inout PendingRegistration) async throws(StoreError) -> Void) async {
            guard self.outcome == nil else { return }
            do throws(StoreError) { try await body(&self) } catch { self.outcome = .failure(error) }
        }

        /// Takes what was read: whether it may be changed, or was changed by an attempt before.
        ///
        /// - Parameter now: when it was read, by Redis' clock.
        mutating func take(_ current: StoredDevice?, at now: UnixMilliseconds) throws(StoreError) {
            self.current = current
            self.readAt = now
            self.realm = self.realm(over: current)
            if let intended = self.intended, let current, current.record == intended, current.realm == self.realm {
                self.stored = current
                self.step = .confirm
                return
            }
            if self.written == nil || current?.record != self.written { try self.condition.check(current) }
            // The record that the last attempt meant to write is not there: another's write came first, and this is a change of that.
            if self.intended != nil { self.change = nil }
            if let asOf = self.asOf, let changeTime = self.changeTime, let current,
                asOf < current.registeredAt || changeTime < current.changedAt || self.isRepeated(over: current)
            {
                self.outcome = .success(RegisterResult(change: .ignored, device: current))
                return
            }
            self.step = .decide
        }

        /// True when the device was registered by this line of an import already, whatever was changed without a time since. What an earlier
        /// attempt has written is no such registration: the token may not be its own yet.
        private func isRepeated(over current: StoredDevice) -> Bool {
            self.importedPart != nil && self.isFirstAttempt && self.asOf == current.registeredAt
                && self.changeTime == current.changedAt && self.token == current.record.token
                && self.realm == current.realm
        }

        /// Ends a line of an import that has the time and token of the one of its device that was taken last. That one may still be stored as of a
        /// moment before.
        mutating func ignoreRepetition(of taken: PendingRegistration) {
            guard self.asOf != nil, self.asOf == taken.asOf, self.changeTime == taken.changeTime,
                self.token == taken.token,
                self.registration.provider == taken.registration.provider,
                self.registration.environment == taken.registration.environment
            else { return }
            self.outcome = taken.outcome?.map { RegisterResult(change: .ignored, device: $0.device) }
        }

        /// Decides what is to be stored over what was read.
        mutating func decide(_ calls: StoreCalls) throws(StoreError) {
            let (current, now) = (self.current, self.readAt)
            var record = DeviceStore.record(
                self.registration,
                token: self.token,
                topics: self.topics,
                assumedServerKey: self.assumedServerKey,
                realm: self.realm,
                over: current?.record,
                seenAt: min(self.asOf ?? now, now),
                now: now,
            )
            if let asOf = self.asOf, let changeTime = self.changeTime, changeTime > asOf {
                record.changedAt = min(changeTime, now)
            }
            self.record = record
            // By Redis' clock on both sides: a local one may be wrong by any time. A registration of a time to come is of a clock that was set back.
            if let current, current.realm == self.realm, current.record == record, !self.isNewer(than: current, now),
                (0..<StoreLimits.freshMilliseconds).contains(
                    min(self.asOf ?? now, now).milliseconds(since: current.registeredAt)
                )
            {
                self.step = .compare
            } else {
                self.step = .claim
            }
            let packed = try DeviceStore.encoded(record)
            try DeviceStore.checkSize(record, packed.count)
            self.encoded = try calls.sealed(packed, of: self.home.app)
        }

        /// True when its time is later than that of the device: it must be noted, so that nothing between the two is carried out late.
        private func isNewer(than current: StoredDevice, _ now: UnixMilliseconds) -> Bool {
            self.asOf.map { min($0, now) > current.registeredAt } ?? false
        }

        /// Takes the answer to the claim that was made while the device was read. One that has none, or was left to others, is made now.
        mutating func takeEarlyClaim() {
            guard let claim = self.earlyClaim else { return }
            switch (self.step, claim) {
            case (.compare, .settled): self.compare(isSettled: true)
            case (.compare, .leftToOthers): self.step = .claim
            case (.compare, .claimed), (.claim, .claimed), (.claim, .settled): self.take(claim)
            default: return
            }
            self.earlyClaim = nil
        }

        /// Takes the answer whether the token is the device's alone, whose record is as it should be.
        mutating func compare(isSettled: Bool) {
            guard isSettled, var current = self.current else {
                self.step = .claim
                return
            }
            current.displaced = self.displaced
            self.outcome = .success(RegisterResult(change: self.change ?? .unchanged, device: current))
        }

        /// Takes the answer to a claim.
        mutating func take(_ claim: StoreCalls.ClaimAnswer) {
            self.cleared = nil
            self.others = claim.others
            switch claim {
            // The record must stand beside it: another device that takes the token must then pass our comparison.
            case .settled where self.current?.record.token == self.token: self.step = .write
            case .claimed(let others) where others.isEmpty:
                self.cleared = ClearedOwners()
                self.step = .write
            case .settled, .claimed, .crowded, .leftToOthers: self.step = .claimAlone
            }
        }

        /// Takes the answer to the write of its record.
        mutating func take(_ answer: StoreCalls.PutAnswer) throws(StoreError) {
            guard let record = self.record else { preconditionFailure("a record was written") }
            self.intended = record
            self.change = self.change ?? self.changeByRecord
            if let current = self.current { self.departures.append((current.record.token, current.record.user)) }
            switch answer {
            case .mismatch:
                self.step = .read
            case .gone:
                self.step = .withdraw
            case .full:
                throw DeviceStore.full(self.home)
            case .failed(let reason):
                throw StoreError(.corrupt, "\(PutDevicesCall.function): \(reason)")
            case .written(let ordinal, let header):
                self.stored = try StoredDevice(
                    self.home.app,
                    self.realm,
                    self.home.owner.partition,
                    ordinal,
                    header,
                    record,
                    self.encoded,
                )
                self.step = .confirm
            }
        }

        /// Returns the device that this registration would have stored.
        func unstored() throws(StoreError) -> StoredDevice {
            guard let record = self.record else { preconditionFailure("there is a record to write") }
            let header = RecordHeader(registeredAt: self.asOf ?? self.readAt, generation: 0)
            let (partition, bytes) = (self.home.owner.partition, self.encoded)
            return try StoredDevice(self.home.app, self.realm, partition, 0, header.bytes, record, bytes)
        }

        /// The changes that the record to write makes.
        private var changeByRecord: RegisterResult.Change {
            guard let current = self.current, let record = self.record else { return .created }
            guard !current.record.hasSameContent(as: record) || current.realm != self.realm else { return .unchanged }
            return current.record.token == record.token && current.realm == self.realm ? .updated : .tokenReplaced
        }

        /// Returns the realm that the registration names, or the one that was learnt of its token.
        private func realm(over current: StoredDevice?) -> Realm {
            let named = Realm(self.registration.provider, self.registration.environment)
            guard let current, current.record.isEnvironmentLearned, current.record.token == self.token,
                current.realm.provider == named.provider
            else { return named }
            return current.realm
        }
    }
}
