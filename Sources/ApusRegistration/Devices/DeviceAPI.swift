internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusStore
internal import HTTPTypes

/// What is done with devices over HTTP, for a caller who is known.
///
/// A backend may do all of it. A user's device may act for that user, and on devices that are the user's or nobody's; that
/// is made a condition of the change itself, so that no race between look and change lets it touch another's.
struct DeviceAPI: Sendable {
    let store: DeviceStore
    let topicNames: TopicNames
    let metrics: RegistrationMetrics
    let shared: SharedMetrics

    /// One request for one app's resource, by somebody who proved to be that caller.
    struct Call {
        let app: AppID
        let caller: Caller
        let request: APIRequest
    }

    /// Answers.
    func answer(
        _ call: Call,
        _ resource: APIPath.Resource,
        _ verb: HTTPOperation.Verb
    ) async throws(ProblemDetails)
        -> APIResponse
    {
        do {
            switch (resource, verb) {
            case (.device(let device), .put): return try await self.put(call, try Self.device(device))
            case (.device(let device), .get): return try await self.get(call, try Self.device(device))
            case (.device(let device), .patch): return try await self.patch(call, try Self.device(device))
            case (.device(let device), .delete): return try await self.delete(call, try Self.device(device))
            case (.topic(let topic, let device), .put):
                return try await self.subscribe(call, try Self.device(device), try Self.topic(topic))
            case (.topic(let topic, let device), .delete):
                return try await self.unsubscribe(call, try Self.device(device), try Self.topic(topic))
            case (.userDevice(let device, let user), .put):
                return try await self.bind(call, try Self.device(device), try Self.user(user))
            case (.userDevice(let device, let user), .delete):
                return try await self.unbind(call, try Self.device(device), try Self.user(user))
            case (_, .get), (_, .patch), (_, .other): preconditionFailure("a verb that the route does not have")
            }
        } catch let problem as ProblemDetails {
            throw problem
        } catch let error as StoreError {
            throw ProblemDetails(error)
        } catch {
            var problem = ProblemDetails(.internalError, "the request could not be carried out")
            problem.cause = "\(error)"
            throw problem
        }
    }

    // MARK: The device

    private func put(_ call: Call, _ device: DeviceID) async throws -> APIResponse {
        let type = try call.request.contentType([.json, .protobuf])
        let condition = try call.request.condition()
        var registration = try RegistrationBody.read(call.request.body, as: type, device: device)
        // Who registers itself registers for its user: nobody else's name counts (RELIABILITY §6.2, 3).
        if case .user(let user) = call.caller {
            guard registration.user.isEmpty || registration.user == user.text else { throw Self.foreignUser }
            registration.user = user.text
        }
        let ready = registration
        let result = try await self.guarded(call, device, condition) { condition throws(StoreError) in
            try await self.store.register(call.app, ready, condition: condition)
        }
        self.count(result.change.metric, result.device)
        let topics: [String]
        if result.change != .ignored, let names = ready.topics {
            topics = Set(names.compactMap { try? TopicName($0).text }).sorted()
        } else {
            topics = try await self.topicNames.names(call.app, result.device.record.topics)
        }
        let status: HTTPResponse.Status = result.change == .created ? .created : .ok
        return try self.document(result.device, topics: topics, call, status)
    }

    private func get(_ call: Call, _ device: DeviceID) async throws -> APIResponse {
        guard let stored = try await self.store.get(call.app, device) else { throw Self.missing }
        try Self.checkOwner(call.caller, stored)
        if try EntityTags.isKnown(stored.etag, ifNoneMatch: call.request.headers[.ifNoneMatch]) {
            return APIResponse(status: .notModified, headers: [.eTag: stored.etag, .vary: "Accept"])
        }
        return try await self.document(stored, call)
    }

    private func patch(_ call: Call, _ device: DeviceID) async throws -> APIResponse {
        do throws(ProblemDetails) {
            _ = try call.request.contentType([.mergePatch])
        } catch {
            var error = error
            // RFC 5789 §2.2: a client learns from it what patches are taken.
            error.acceptsPatches = true
            throw error
        }
        let condition = try call.request.condition()
        let patch = try DevicePatch(call.request.body)
        if case .user(let user) = call.caller, case .replace(let new) = patch.user, !new.isEmpty, new != user.text {
            throw Self.foreignUser
        }
        for _ in 0..<APILimits.attemptsMax {
            guard let current = try await self.store.get(call.app, device) else {
                guard condition.holds(for: nil) else { throw Self.conditionFailed }
                throw Self.missing
            }
            try Self.checkOwner(call.caller, current)
            guard condition.holds(for: current) else { throw Self.conditionFailed }
            do {
                // A patch is over what was read: if that changed, it is made anew.
                let result = try await self.store.patch(
                    call.app,
                    device,
                    attributes: patch.attributes(over: current.record.attributes),
                    user: patch.user.applied(to: current.record.user),
                    condition: .matches([current.etag]),
                )
                guard let changed = self.counted(result) else { throw Self.missing }
                return try await self.document(changed, call)
            } catch let error as StoreError where error.code == .preconditionFailed {
                continue
            }
        }
        throw Self.contended
    }

    private func delete(_ call: Call, _ device: DeviceID) async throws -> APIResponse {
        let result = try await self.guarded(call, device, try call.request.condition()) {
            condition throws(StoreError) -> DeviceStore.DeleteResult in
            try await self.store.delete(call.app, device, condition: condition)
        }
        if case .deleted(let last) = result { self.count(.deleted, last) }
        return .done
    }

    // MARK: Topics and users

    private func subscribe(_ call: Call, _ device: DeviceID, _ topic: TopicName) async throws -> APIResponse {
        try await self.checkOwner(call, device)
        guard self.counted(try await self.store.subscribe(call.app, device, to: [topic.text])) != nil else {
            throw Self.missing
        }
        return .done
    }

    private func unsubscribe(_ call: Call, _ device: DeviceID, _ topic: TopicName) async throws -> APIResponse {
        try await self.checkOwner(call, device)
        _ = self.counted(try await self.store.unsubscribe(call.app, device, from: [topic.text]))
        return .done
    }

    private func bind(_ call: Call, _ device: DeviceID, _ user: UserID) async throws -> APIResponse {
        if case .user(let own) = call.caller, own != user { throw Self.foreignUser }
        let result = try await self.guarded(call, device, .none) {
            condition throws(StoreError) -> DeviceStore.ChangeResult in
            try await self.store.patch(call.app, device, user: user.text, condition: condition)
        }
        guard self.counted(result) != nil else { throw Self.missing }
        return .done
    }

    private func unbind(_ call: Call, _ device: DeviceID, _ user: UserID) async throws -> APIResponse {
        if case .user(let own) = call.caller, own != user { throw Self.foreignUser }
        // Only if it is this user's: a log-out that comes late takes the device from nobody.
        _ = self.counted(try await self.store.unbindUser(call.app, device, from: user))
        return .done
    }

    // MARK: Whose it is

    /// Makes a change on the condition that the device is the caller's to change, and on the caller's own condition.
    private func guarded<Result: Sendable>(
        _ call: Call,
        _ device: DeviceID,
        _ condition: DeviceCondition,
        _ change: (DeviceCondition) async throws(StoreError) -> Result,
    ) async throws -> Result {
        guard case .user = call.caller else { return try await change(condition) }
        for _ in 0..<APILimits.attemptsMax {
            let current = try await self.store.get(call.app, device)
            if let current { try Self.checkOwner(call.caller, current) }
            guard condition.holds(for: current) else { throw Self.conditionFailed }
            do throws(StoreError) {
                return try await change(current.map { .matches([$0.etag]) } ?? .absent)
            } catch {
                guard error.code == .preconditionFailed else { throw error }
            }
        }
        throw Self.contended
    }

    private func checkOwner(_ call: Call, _ device: DeviceID) async throws {
        guard case .user = call.caller else { return }
        if let current = try await self.store.get(call.app, device) { try Self.checkOwner(call.caller, current) }
    }

    private static func checkOwner(_ caller: Caller, _ device: StoredDevice) throws(ProblemDetails) {
        guard case .user(let user) = caller, !device.record.user.isEmpty, device.record.user != user.text else {
            return
        }
        throw .foreign("the device is another user's")
    }

    // MARK: Answers

    private func document(_ device: StoredDevice, _ call: Call) async throws -> APIResponse {
        let topics = try await self.topicNames.names(call.app, device.record.topics)
        return try self.document(device, topics: topics, call, .ok)
    }

    private func document(
        _ device: StoredDevice,
        topics: [String],
        _ call: Call,
        _ status: HTTPResponse.Status,
    ) throws -> APIResponse {
        let type = MediaType.answer(accept: call.request.headers[.accept])
        return APIResponse(
            status: status,
            headers: [.contentType: type.name, .eTag: device.etag, .vary: "Accept"],
            body: try DeviceDocument(device: device, topics: topics).bytes(as: type),
        )
    }

    private func count(_ change: DeviceChange.Change, _ device: StoredDevice) {
        let label = DeviceChange(change: change, source: .http)
        self.shared.add(to: self.metrics.changes[device.realm.provider, label])
    }

    /// Counts a change and gives the device after it; nil: there is none.
    private func counted(_ result: DeviceStore.ChangeResult) -> StoredDevice? {
        guard let (change, device) = result.metric else { return nil }
        self.count(change, device)
        return device
    }

    private static let missing = ProblemDetails(.notFound, "there is no such device")
    private static let foreignUser = ProblemDetails.foreign("the token is not that user's")
    private static let conditionFailed = ProblemDetails(.preconditionFailed, "the device is not in that state")
    private static let contended = ProblemDetails.unavailable(
        "others change the same device all the time",
        retryAfterSeconds: 1,
        cause: "contended",
    )

    private static func device(_ text: String) throws(ProblemDetails) -> DeviceID {
        do throws(IdentifierError) { return try DeviceID(text) } catch {
            throw ProblemDetails(.malformedRequest, "\(error)")
        }
    }

    private static func user(_ text: String) throws(ProblemDetails) -> UserID {
        do throws(IdentifierError) { return try UserID(text) } catch {
            throw ProblemDetails(.malformedRequest, "\(error)")
        }
    }

    private static func topic(_ text: String) throws(ProblemDetails) -> TopicName {
        do throws(IdentifierError) { return try TopicName(text) } catch {
            throw ProblemDetails(.malformedRequest, "\(error)")
        }
    }
}
