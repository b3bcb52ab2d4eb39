internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import HTTPTypes

/// Manages users and their devices.
extension DeviceAPI {
    /// Answers `GET …/users/{user}/devices`.
    func userDevices(_ call: APICall) async throws -> APIResponse {
        let user = try call.user()
        try Self.checkUser(call.caller, user)
        let devices = try await self.store.devices(call.app, ofUser: user).sorted { $0.id < $1.id }
        var body: [UInt8] = Array("{\"devices\":[".utf8)
        for (index, device) in devices.enumerated() {
            let topics = try await self.topicNames.names(call.app, device.record.topics)
            let document = DeviceDocument(device: device, topics: topics, badge: try await self.store.badge(of: device))
            if index > 0 { body.append(UInt8(ascii: ",")) }
            body += try document.bytes(as: .json).dropLast()
        }
        body += "]}\n".utf8
        return APIResponse(status: .ok, headers: [.contentType: MediaType.json.name], body: body)
    }

    /// Answers `DELETE …/users/{user}`: forgets every device of the user, and with them all that is known of the user. Dead letters that name
    /// the user go first, while the devices are known: what fails can be asked for again.
    func deleteUser(_ call: APICall) async throws -> APIResponse {
        let user = try call.user()
        try Self.checkUser(call.caller, user)
        let forgotten = try await ForgottenUser(user, of: call.app, in: self.store)
        if forgotten.hasDevices { try await self.audit("user.forget", of: user.text, call) }
        do {
            guard let reservation = call.memory.reservation(of: APILimits.userRemovalBytes) else {
                throw ProblemDetails.memorySpent
            }
            try await forgotten.forgetLetters(in: self.deadLetters, pageSize: APILimits.userRemovalLetters) {
                // Users of whom nothing is known, whom anybody can invent, are not recorded.
                if !forgotten.hasDevices { try await self.audit("user.forget", of: user.text, call) }
            }
            withExtendedLifetime(reservation) {}
        } catch let error as RedisError {
            throw ProblemDetails(streams: error)
        }
        // Also those of devices that an earlier attempt has removed.
        try await self.userRemovals.make(self.store.allSlots) {
            for device in try await self.store.deleteDevices(call.app, ofUser: user) { self.count(.deleted, device) }
        }
        try await self.store.forgetUser(call.app, user)
        return .done
    }

    /// Answers `PUT …/users/{user}/devices/{device}`.
    func bind(_ call: APICall) async throws -> APIResponse {
        let (user, device) = (try call.user(), try call.device())
        try Self.checkUser(call.caller, user)
        let result = try await self.guarded(call, device, .none, user: user.text) {
            condition throws(StoreError) -> DeviceStore.ChangeResult in
            try await self.store.patch(call.app, device, user: user.text, condition: condition)
        }
        guard self.counted(result) != nil else { throw Self.missing }
        return .done
    }

    /// Answers `DELETE …/users/{user}/devices/{device}`: the device logs out.
    func unbind(_ call: APICall) async throws -> APIResponse {
        let (user, device) = (try call.user(), try call.device())
        try Self.checkUser(call.caller, user)
        // The device must be this user's, so that a late log-out takes it from nobody else.
        try await self.changes.make(self.store.slots(call.app, changedFor: device.text)) {
            _ = self.counted(try await self.store.unbindUser(call.app, device, from: user))
        }
        return .done
    }

    private static func checkUser(_ caller: Caller, _ user: UserID) throws(ProblemDetails) {
        if case .user(let own) = caller, own != user { throw Self.foreignUser }
    }
}
