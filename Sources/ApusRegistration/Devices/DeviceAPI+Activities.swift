internal import ApusCore
internal import ApusMessages
internal import ApusStore

/// Manages Live Activities on a device: each has a token of its own, beside the device's
/// (https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications).
extension DeviceAPI {
    /// Answers `PUT …/activities/{activity}`.
    func putActivity(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        _ = try call.request.contentType([.json])
        let address = try ActivityBody.read(call.request.body, activity: call.path["activity"], now: self.store.now)
        let result = try await self.guarded(call, device, try call.request.condition()) {
            condition throws(StoreError) -> DeviceStore.ChangeResult in
            try await self.store.putAddress(call.app, device, address, condition: condition)
        }
        guard self.counted(result) != nil else { throw Self.missing }
        return .done
    }

    /// Answers `DELETE …/activities/{activity}`: the activity has ended.
    func deleteActivity(_ call: APICall) async throws -> APIResponse {
        let device = try call.device()
        let activity = call.path["activity"]
        let result = try await self.guarded(call, device, try call.request.condition()) {
            condition throws(StoreError) -> DeviceStore.ChangeResult in
            try await self.store.removeAddresses(call.app, device, activity: activity, condition: condition)
        }
        _ = self.counted(result)
        return .done
    }
}

/// Reads the body of `PUT …/activities/{activity}`. It is pure.
enum ActivityBody {
    /// The kinds of token that a Live Activity has.
    static let kinds: [TokenKind] = [.liveActivityStart, .liveActivityUpdate]

    /// The provider whose devices have Live Activities.
    private static var provider: Provider {
        ProviderTraits.known.first { $0.hasActivities }?.provider ?? Provider.allCases[0]
    }

    /// Returns the address that a body describes.
    static func read(
        _ bytes: [UInt8],
        activity: String,
        now: UnixMilliseconds,
    ) throws(ProblemDetails) -> DeviceRecord.SecondaryAddress {
        do throws(IdentifierError) {
            _ = try DeviceID(activity)
        } catch {
            throw ProblemDetails(.malformedRequest, "not a valid activity id: must be \(error.rule)")
        }
        var reader = MemberReader(try RegistrationBody.object(bytes))
        for name in ["token", "kind"] where !reader.has(name) { reader.note(name, "must be given") }
        let kind = reader.word("kind", Self.kinds, \.name)
        var token: [UInt8] = []
        if let text = reader.text("token") {
            do throws(StoreError) {
                token = try DeviceToken.stored(text, of: Self.provider)
            } catch {
                reader.note("token", error.detail)
            }
        }
        let age = kind == .liveActivityStart ? DeviceStore.activityStartTokenAge : DeviceStore.activityTokenAge
        let latest = now.advanced(byMilliseconds: Int64(age / .milliseconds(1)))
        var end = latest
        if reader.has("expires_at_ms") {
            if let time = reader.time("expires_at_ms") {
                if time <= now { reader.note("expires_at_ms", "must be later than now") }
                end = min(time, latest)
            }
        }
        let mistakes = reader.finish()
        guard mistakes.isEmpty, let kind else { throw .invalid(mistakes) }
        var address = DeviceRecord.SecondaryAddress(kind: kind, token: token)
        address.activityID = activity
        address.expiresAtSeconds = end.seconds
        return address
    }
}
