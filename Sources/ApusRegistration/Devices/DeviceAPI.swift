internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import HTTPTypes

/// Serves devices over HTTP, for a caller that is identified.
///
/// A backend may do everything. A user's device may act for that user, and on devices that are the user's or nobody's. This is a condition
/// of the change itself, so that no race between check and change lets it touch another's. Devices of other users look as if they were not
/// there, but to whoever wants to register one under the same id.
struct DeviceAPI: Sendable {
    let store: DeviceStore
    let changes: ReplicatedChanges
    /// The removals of users, which wait for replicas however the service is configured: after a failover nothing would lead to a device
    /// that is there again.
    let userRemovals: ReplicatedChanges
    let deadLetters: DeadLetterStore
    let auditTrail: AuditTrail
    let topicNames: TopicNames
    /// The rules of an app for subscriptions.
    let subscriptions: @Sendable (AppID) -> SubscriptionRules
    let metrics: RegistrationMetrics
    let shared: SharedMetrics

    // MARK: The device

    /// Answers `PUT`.
    func put(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        let type = try call.request.contentType([.json, .protobuf])
        var condition = try call.request.condition()
        let rules = self.subscriptions(call.app)
        var registration = try RegistrationBody.read(
            call.request.body,
            as: type,
            device: device,
            hosts: rules.hosts
        )
        // A device that registers itself does so for its user; any other user in the body is ignored.
        if case .user(let user) = call.caller {
            guard registration.user.isEmpty || registration.user == user.text else { throw Self.foreignUser }
            registration.user = user.text
            condition = .belongs(to: user, and: condition)
        }
        let result = try await self.changes.make(self.store.slots(call.app, changedBy: registration)) {
            let result = try await self.store.register(
                call.app,
                registration,
                condition: condition,
                assumedServerKey: rules.serverKey,
                askedBy: call.caller.user,
                readsBadge: true,
            )
            self.count(result.change.metric, result.device)
            if let badge = registration.badge, result.change != .ignored {
                _ = try await self.store.setBadge(call.app, device, to: badge)
            }
            return result
        }
        let topics: [String]
        if result.change != .ignored, let names = registration.topics {
            topics = Set(names.compactMap { try? TopicName($0).text }).sorted()
        } else {
            topics = try await self.topicNames.names(call.app, result.device.record.topics)
        }
        let status: HTTPResponse.Status = result.change == .created ? .created : .ok
        // A device that was created just now has no badge but the one that it came with; another one that comes without has the one it had.
        let known = registration.badge == nil ? result.badge : nil
        let badge: UInt32? = result.change == .created ? registration.badge ?? 0 : known
        return try await self.answer(result.device, topics: topics, badge: badge, call, status)
    }

    /// Answers `GET`.
    func get(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        guard let stored = try await self.visible(device, to: call) else { throw Self.missing }
        let answer = try await self.answer(stored, call)
        let etag = answer.headers[.eTag] ?? ""
        if try EntityTags.isKnown(etag, ifNoneMatch: call.request.headers[.ifNoneMatch]) {
            return APIResponse(status: .notModified, headers: [.eTag: etag, .vary: "Accept"])
        }
        return answer
    }

    /// Answers `PATCH`.
    func patch(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        do throws(ProblemDetails) {
            _ = try call.request.contentType([.mergePatch])
        } catch {
            var error = error
            // RFC 5789 §2.2: the header tells the client which patch formats are accepted.
            error.acceptsPatches = true
            throw error
        }
        let condition = try call.request.condition()
        let patch = try DevicePatch(call.request.body)
        if case .user(let user) = call.caller, case .replace(let new) = patch.user, !new.isEmpty, new != user.text {
            throw Self.foreignUser
        }
        for _ in 0..<APILimits.attemptsMax {
            guard let current = try await self.visible(device, to: call) else {
                guard condition.holds(for: nil) else { throw Self.conditionFailed }
                guard try await self.patchMissing(device, patch, call) else { continue }
                throw Self.missing
            }
            guard condition.holds(for: current) else { throw Self.conditionFailed }
            do {
                // A patch applies to what was read: if the record has changed, the patch is applied anew.
                let user = patch.user.applied(to: current.record.user)
                let slots = self.store.slots(call.app, changedFor: device.text, user: user)
                let changed = try await self.changes.make(slots) {
                    let result = try await self.store.patch(
                        call.app,
                        device,
                        attributes: patch.attributes(over: current.record.attributes),
                        user: patch.user == .keep ? nil : user,
                        condition: .matches([current.etag]),
                    )
                    guard let changed = self.counted(result) else { throw Self.missing }
                    if case .replace(let badge) = patch.badge {
                        _ = try await self.store.setBadge(call.app, device, to: badge)
                    }
                    return changed
                }
                return try await self.answer(changed, call)
            } catch let error as StoreError where error.code == .preconditionFailed {
                continue
            }
        }
        throw Self.contended
    }

    /// Patches a device that is not there for the caller: one that was removed on a provider's word must not come back as it was before.
    ///
    /// - Returns: false when one is there by now, which is to be read again.
    private func patchMissing(_ device: DeviceID, _ patch: DevicePatch, _ call: APICall) async throws -> Bool {
        var user: String?
        if case .replace(let new) = patch.user { user = new }
        do throws(StoreError) {
            _ = try await self.store.patchMissing(
                call.app,
                device,
                user: user,
                condition: call.condition(.absent),
                attributes: { patch.attributes(over: $0) },
            )
            return true
        } catch {
            guard error.code != .foreign else { return true }
            guard error.code == .preconditionFailed else { throw error }
            return false
        }
    }

    /// Answers `DELETE`.
    func delete(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        let condition = try call.request.condition()
        // Ids without a device, which anybody can invent, are not recorded.
        if case .backend = call.caller, let current = try await self.store.get(call.app, device),
            condition.holds(for: current)
        {
            try await self.audit("device.forget", of: device.text, call)
        }
        let result = try await self.guarded(call, device, condition) {
            condition throws(StoreError) -> DeviceStore.DeleteResult in
            try await self.store.delete(call.app, device, condition: condition)
        }
        if case .deleted(let last) = result { self.count(.deleted, last) }
        return .done
    }

    /// Records what a backend is about to do. What users do with their own devices is not recorded.
    func audit(_ action: String, of object: String, _ call: APICall) async throws {
        guard case .backend = call.caller else { return }
        let entry = AuditEntry(action, of: object, app: call.app.text, by: call.caller.asOperator)
        do {
            try await self.auditTrail.record(entry)
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
    }

    // MARK: Authorization

    /// Makes a change on the condition that the caller may change the device, and on the caller's own condition.
    ///
    /// - Parameters:
    ///   - user: the user who gets the device; empty: none does.
    ///   - topics: the topics that it enters.
    /// - Returns: nil when the device is another user's, which is to be answered as if there were none.
    func guarded<Result: Sendable>(
        _ call: APICall,
        _ device: DeviceID,
        _ condition: DeviceCondition,
        user: String = "",
        topics: [String] = [],
        _ change: (DeviceCondition) async throws(StoreError) -> Result,
    ) async throws -> Result? {
        try await self.changes.make(
            self.store.slots(call.app, changedFor: device.text, user: user, topics: topics)
        ) { try await self.conditional(call, device, condition, change) }
    }

    /// Makes a change on these conditions. It has a name of its own: a call that leaves out the user and the topics must not come here, where
    /// no replica is waited for.
    private func conditional<Result: Sendable>(
        _ call: APICall,
        _ device: DeviceID,
        _ condition: DeviceCondition,
        _ change: (DeviceCondition) async throws(StoreError) -> Result,
    ) async throws -> Result? {
        guard case .user = call.caller else { return try await change(condition) }
        for _ in 0..<APILimits.attemptsMax {
            let current = try await self.store.get(call.app, device)
            let isVisible = current.map { self.isVisible($0, to: call) } ?? true
            guard condition.holds(for: isVisible ? current : nil) else { throw Self.conditionFailed }
            guard isVisible else { return nil }
            do throws(StoreError) {
                return try await change(call.condition(current.map { .matches([$0.etag]) } ?? .absent))
            } catch {
                guard error.code == .preconditionFailed else { throw error }
            }
        }
        throw Self.contended
    }

    /// Reads a device; nil when there is none that the caller may know of.
    func visible(_ device: DeviceID, to call: APICall) async throws(StoreError) -> StoredDevice? {
        guard let stored = try await self.store.get(call.app, device), self.isVisible(stored, to: call) else {
            return nil
        }
        return stored
    }

    /// Returns false for a device of another user, and counts that it was asked for.
    private func isVisible(_ device: StoredDevice, to call: APICall) -> Bool {
        guard case .user(let user) = call.caller, !device.record.user.isEmpty, device.record.user != user.text else {
            return true
        }
        self.shared.add(to: self.metrics.authenticationFailures[.owner])
        return false
    }

    // MARK: Answers

    func answer(_ device: StoredDevice, _ call: APICall) async throws -> APIResponse {
        let topics = try await self.topicNames.names(call.app, device.record.topics)
        return try await self.answer(device, topics: topics, badge: nil, call, .ok)
    }

    /// - Parameter badge: what it has come to; nil: the store says it.

    func answer(
        _ device: StoredDevice,
        topics: [String],
        badge: UInt32?,
        _ call: APICall,
        _ status: HTTPResponse.Status,
    ) async throws -> APIResponse {
        let type = MediaType.answer(accept: call.request.headers[.accept])
        let known = if let badge { badge } else { try await self.store.badge(of: device) }
        let document = DeviceDocument(device: device, topics: topics, badge: known)
        return APIResponse(
            status: status,
            headers: [.contentType: type.name, .eTag: document.etag(as: type), .vary: "Accept"],
            body: try document.bytes(as: type),
        )
    }

    func count(_ change: DeviceChange.Change, _ device: StoredDevice) {
        let label = DeviceChange(change: change, source: .http)
        self.shared.add(to: self.metrics.changes[device.realm.provider, label])
    }

    /// Counts a change and returns the device after it; nil when there is none.
    func counted(_ result: DeviceStore.ChangeResult?) -> StoredDevice? {
        guard let (change, device) = result?.metric else { return nil }
        self.count(change, device)
        return device
    }

    static let missing = ProblemDetails(.notFound, "there is no such device")
    static let foreignUser = ProblemDetails.foreign("the token is not that user's")
    private static let conditionFailed = ProblemDetails(.preconditionFailed, "the device is not in that state")
    static let contended = ProblemDetails.unavailable(
        "others change the same device all the time",
        retryAfterSeconds: 1,
        cause: "contended",
    )
}
