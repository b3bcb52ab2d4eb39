internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import HTTPTypes

/// Stands as a push gateway behind Matrix homeservers, and behind servers of UnifiedPush, which speak the same.
///
/// A push key is the token that the app registered for its device. Who has none registered, because the provider called it dead or the
/// device was deleted, is answered as rejected at once, so that the homeserver forgets it. The same event for the same push key is sent
/// once. Nobody can send to a token that no device has registered.
///
/// Source: https://spec.matrix.org/latest/push-gateway-api/, https://unifiedpush.org/developers/gateway/
struct MatrixAPI: Sendable {
    let store: DeviceStore
    let sends: SendAPI

    /// The answer to UnifiedPush's question whether there is a gateway.
    static let discovery = APIResponse.json(.ok, ["unifiedpush": ["gateway": "matrix"]])

    /// Answers `POST /_matrix/push/v1/notify`.
    ///
    /// - Parameters:
    ///   - apps: the apps by the ids that homeservers name.
    ///   - address: the homeserver's; nil when it is not known.
    ///   - rates: counts devices of homeservers, and notifications of apps and push keys. A request that is refused for one of its push keys may
    ///     be repeated: what was sent is not sent again.
    func notify(
        _ bytes: [UInt8],
        _ apps: [String: AppID],
        from address: AddressCounts.Address?,
        _ rates: RequestRates,
    ) async throws -> APIResponse {
        let body: MatrixBody
        do throws(ProblemDetails) {
            body = try MatrixBody(bytes)
        } catch {
            let code = error.kind == .malformedRequest ? "M_NOT_JSON" : "M_BAD_JSON"
            return .json(.badRequest, ["errcode": .string(code), "error": .string(error.sentence)])
        }
        try rates.checkDevices(body.devices.count, of: address)
        let now = self.sends.clock.now()
        var rejected: [JSONValue] = []
        var contended: StoreError?
        // The push keys of each app so far, with a device and without.
        var (known, unknown): ([AppID: Int], [AppID: Int]) = ([:], [:])
        for device in body.devices {
            guard let app = apps[device.app] else {
                rejected.append(.string(device.pushKey))
                continue
            }
            let holder: StoredDevice?
            do {
                holder = try await self.find(device.pushKey, app)
            } catch let error as StoreError where error.code == .contended {
                // A registration that ended halfway leaves it so until the janitor has come by: the other push keys do not wait for that.
                contended = error
                continue
            }
            guard let found = holder else {
                try rates.checkUnknownPushKey(of: app, counted: unknown[app, default: 0])
                unknown[app, default: 0] += 1
                rejected.append(.string(device.pushKey))
                continue
            }
            try rates.checkPushKey(of: found.id, app, counted: known[app, default: 0])
            known[app, default: 0] += 1
            let command = try Self.command(body, device, to: found.id, at: found.realm.provider, of: app, now: now)
            do {
                let hasName = !body.eventID.isEmpty
                _ = try await self.sends.publish(command, in: .express, waitsForReplica: hasName)
            } catch let problem as ProblemDetails where problem.kind == .conflict {
                // The same event for the same key, with other counts: it was sent.
                continue
            }
        }
        if let contended { throw contended }
        return .json(.ok, ["rejected": .array(rejected)])
    }

    /// Returns the send to a device. One that breaks a rule, also one of the device's provider, has ids and counts only: a homeserver repeats what
    /// is refused for a day, and sends its user nothing else meanwhile; it is not told of what a dispatcher refuses.
    static func command(
        _ body: MatrixBody,
        _ device: MatrixBody.Device,
        to id: String,
        at provider: Provider,
        of app: AppID,
        now: UnixMilliseconds,
    ) throws(ProblemDetails) -> SendCommand {
        var command = SendCommand(
            app: app.text,
            target: .devices([id]),
            notification: body.notification(for: device, at: provider)
        )
        command.id = Self.id(body, device)
        do {
            try SendBody.check(command, now: now)
            let context = RenderContext(send: try SendID(command.id), publishedAt: now, now: now)
            try ProviderList.installed[provider]?.check(command.notification, context)
        } catch {
            command.notification = body.notification(for: device.byIDOnly, at: provider)
            try SendBody.check(command, now: now)
        }
        return command
    }

    /// Returns the device that registered a token; homeservers have Apple's in base64, as its SDK for Matrix writes them.
    ///
    /// - Throws: `contended` while the token changes hands: a homeserver that is told of a rejected push key never names it again.
    private func find(_ pushKey: String, _ app: AppID) async throws -> StoredDevice? {
        guard !pushKey.isEmpty, pushKey.utf8.count <= Limits.tokenBytesMax else { return nil }
        var tokens: [(Provider, [UInt8])] = []
        for provider in Provider.allCases {
            if let token = try? DeviceToken.stored(pushKey, of: provider) { tokens.append((provider, token)) }
        }
        let encoded = pushKey.replacing("+", with: "-").replacing("/", with: "_").filter { $0 != "=" }
        if let token = Base64URL.decode(encoded), token.count >= 16 { tokens.append((.apns, token)) }
        for (provider, token) in tokens {
            if let device = try await self.store.find(app, token: token), device.realm.provider == provider {
                return device
            }
        }
        return nil
    }

    private static func id(_ body: MatrixBody, _ device: MatrixBody.Device) -> String {
        guard !body.eventID.isEmpty else { return SendAPI.newID() }
        let text = "\(device.app)\u{0}\(body.eventID)\u{0}\(device.pushKey)"
        return "m" + Hexadecimal.encode(SHA256.hash(utf8: text).prefix(16))
    }
}
