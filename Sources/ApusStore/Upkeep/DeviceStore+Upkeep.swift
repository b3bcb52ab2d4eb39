package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Counts what the janitor did to one partition.
package struct UpkeepReport: Hashable, Sendable {
    /// The devices that were read.
    package var devices = 0
    /// The ordinals whose postings or id were repaired.
    package var ordinals = 0
    /// The devices whose token or user did not lead to them.
    package var hints = 0
    /// The entries of tokens that were settled or cleared.
    package var tokens = 0
    /// The devices in entries of users that were not theirs.
    package var users = 0
    /// The devices whose records were encrypted with the current key.
    package var encrypted = 0
    /// The devices that get messages again, because nothing would have ended their marks as suspect.
    package var unwatched = 0
    /// The devices that were removed because nobody had registered them for too long.
    package var stale: Int { self.staleByProvider.values.reduce(0, +) }
    /// The same devices, by provider.
    package var staleByProvider: [Provider: Int] = [:]
    /// The devices that are as stale, and stay until the next check: so many at once look like a clock that is wrong.
    package var staleLeft = 0
    /// The findings that need a person's decision, in words.
    package var left: [String] = []

    /// Creates counts of zero.
    package init() {}
}

extension DeviceStore {
    /// Returns true when nobody checked an app's part of a partition within that time, so that the caller is to do it.
    package func beginUpkeep(
        _ app: AppID,
        _ partition: Int,
        within seconds: Int,
    ) async throws(StoreError) -> Bool {
        let call = BeginUpkeepCall(keys: [self.keys.upkeep(app, partition)], seconds: seconds)
        return try await self.calls.call(call, partition).integer == 1
    }

    /// Checks all of an app's part of a partition and repairs what the records decide. It is safe beside other writers.
    ///
    /// A posting with a key of its own, of a topic that no device of its chunk has, is not found here; `StoreCheck` finds it.
    ///
    /// - Parameters:
    ///   - staleAfterMilliseconds: the time after its last registration at which a device is removed, by provider; none for never.
    ///   - isWatched: returns true when a device's mark as suspect will be ended by the quarantine of its route, or when that is not known; nil when
    ///     no mark is looked at. The quarantine has a token before its record is marked, and until the mark has ended.
    ///   - throttle: called with the number of records or hints after each part of them; it may wait.
    package func upkeep(
        _ app: AppID,
        _ partition: Int,
        staleAfterMilliseconds: [Provider: Int64] = [:],
        isWatched: (@Sendable (StoredDevice) async -> Bool)? = nil,
        throttle: @Sendable (Int) async -> Void,
    ) async throws(StoreError) -> UpkeepReport {
        var report = UpkeepReport()
        for realm in Realm.allCases {
            var check = PlaceCheck(self, app, realm, partition)
            let staleAfter = staleAfterMilliseconds[realm.provider]
            try await check.run(
                findsUnencrypted: true,
                staleBefore: staleAfter.map { self.clock.now().advanced(byMilliseconds: -$0) },
                isWatched: isWatched,
                throttle: throttle,
            )
            report.devices += check.count
            try await self.removeStale(check, &report)
            for device in check.unwatched where try await self.endSuspicion(of: device) { report.unwatched += 1 }
            report.encrypted += try await self.encrypt(check.unencrypted, throttle: throttle)
            guard !check.findings.isEmpty else { continue }
            // A change in progress has ended by the second look.
            let doubtful = Set(check.findings)
            var again = PlaceCheck(self, app, realm, partition)
            try await again.run(throttle: throttle)
            let found = again.findings.filter(doubtful.contains)
            guard !found.isEmpty else { continue }
            var repaired = try await self.repair(found, of: app)
            if !repaired.left.isEmpty {
                // The repairs may have resolved all of it.
                var last = PlaceCheck(self, app, realm, partition)
                try await last.run(throttle: throttle)
                let standing = Set(last.findings.map(\.description))
                repaired.left.removeAll { !standing.contains($0) }
            }
            report.ordinals += repaired.ordinals
            report.hints += repaired.hints
            report.left += repaired.left
        }
        for name in [StoreKeys.AppBuckets.tokens, .users] {
            var next: Int? = 0
            while let bucket = next, !Task.isCancelled {
                let isTokens = name == .tokens
                let step =
                    isTokens
                    ? try await self.repairTokens(app, partition, bucket: bucket)
                    : try await self.repairUsers(app, partition, bucket: bucket)
                if isTokens { report.tokens += step.repaired } else { report.users += step.repaired }
                next = step.nextBucket
                await throttle(Self.entriesPerBucket)
            }
        }
        return report
    }

    /// Removes stale devices, those that were silent longest first, and no more of them than allowed at once. A device that registers
    /// meanwhile stays.
    private func removeStale(_ check: PlaceCheck, _ report: inout UpkeepReport) async throws(StoreError) {
        let countMax = max(StoreLimits.staleDevicesMin, check.count * StoreLimits.stalePercentMax / 100)
        let oldest = check.stale.sorted { $0.lastSeenAt < $1.lastSeenAt }
        for device in oldest.prefix(countMax) {
            let home = self.home(of: device)
            let event = RemovalEvent(
                HistoryEvent(.stale, at: self.clock.now(), provider: device.realm.provider),
                HistoryRules(keepMilliseconds: StoreLimits.staleHistoryMilliseconds),
            )
            try await self.noteFormerDevice(device, home, event)
            guard try await self.calls.remove(device, home.owner, event: event) else { continue }
            try await self.forget(device, home)
            report.staleByProvider[device.realm.provider, default: 0] += 1
        }
        report.staleLeft += max(0, oldest.count - countMax)
    }

    /// Encrypts records with the current key, and returns how many. One that was changed meanwhile was encrypted by that.
    private func encrypt(
        _ devices: [StoredDevice],
        throttle: @Sendable (Int) async -> Void,
    ) async throws(StoreError) -> Int {
        var count = 0
        for device in devices where !Task.isCancelled {
            let home = self.home(of: device)
            do throws(StoreError) {
                let record = device.record
                let written = try await self.write(record, over: device, realm: device.realm, home: home, stamp: .keep)
                if written != nil { count += 1 }
            } catch {
                // One that a verdict has made larger than a registration may is left, and a full Redis gets nothing that is larger.
                guard error.code == .invalidRegistration || error.redis?.code == .outOfMemory else { throw error }
            }
            await throttle(1)
        }
        return count
    }

    /// The average maximum of entries of a bucket.
    private static let entriesPerBucket = 100

    /// Repairs what a check found, where the records decide.
    package func repair(
        _ findings: [StoreFinding],
        of app: AppID,
    ) async throws(StoreError) -> UpkeepReport {
        var report = UpkeepReport()
        try await self.repair(findings, of: app, &report)
        return report
    }

    private func repair(
        _ findings: [StoreFinding],
        of app: AppID,
        _ report: inout UpkeepReport,
    ) async throws(StoreError) {
        /// The topics in doubt, by place and ordinal.
        var ordinals: [StoreFinding.Scope: [UInt32: Set<UInt32>]] = [:]
        var devices: Set<String> = []
        for finding in findings {
            switch finding.remedy {
            case .ordinal(let ordinal, let topic):
                ordinals[finding.scope, default: [:]][ordinal, default: []].insert(topic)
            case .hints(let device): devices.insert(device)
            case .none: report.left.append(finding.description)
            }
        }
        for (scope, doubts) in ordinals {
            guard case .place(let realm, let partition) = scope else { continue }
            for (ordinal, topics) in doubts {
                do throws(StoreError) {
                    let isRepaired = try await self.repair(app, realm, partition, ordinal: ordinal, doubtful: topics)
                    report.ordinals += isRepaired ? 1 : 0
                } catch {
                    guard error.code == .corrupt else { throw error }
                    report.left.append("\(realm.name)/\(partition), ordinal \(ordinal): \(error.detail)")
                }
            }
        }
        for device in devices {
            guard let id = try? DeviceID(device), let stored = try await self.get(app, id) else { continue }
            if try await self.repairHints(of: stored) { report.hints += 1 }
        }
    }

    /// - Returns: false when another writer kept changing the record.
    private func repair(
        _ app: AppID,
        _ realm: Realm,
        _ partition: Int,
        ordinal: UInt32,
        doubtful: Set<UInt32>,
    ) async throws(StoreError) -> Bool {
        for _ in 0..<StoreLimits.attemptsMax {
            let value = try await self.calls.record(app, realm, partition: partition, ordinal: ordinal)
            let device = try value.map { value throws(StoreError) in
                try StoredDevice(
                    app: app,
                    realm: realm,
                    partition: partition,
                    ordinal: ordinal,
                    value: value,
                    cipher: self.encryption.cipher,
                )
            }
            let topics = device?.record.topics ?? []
            let stray = doubtful.subtracting(topics).subtracting([TopicExpression.everyoneNumber]).sorted()
            let call = RepairDeviceCall(
                keys: [self.keys.meta(app, realm, partition)],
                ordinal: ordinal,
                expected: value ?? [],
                digest: device.map { bigEndian(self.home(of: $0).owner.digest) } ?? [],
                entered: packed(topics),
                left: packed(stray.prefix(Limits.topicsPerDeviceMax)),
            )
            if try await self.calls.call(call, partition).integer == 1 { return true }
        }
        return false
    }
}
