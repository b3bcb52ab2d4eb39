internal import ApusCore
internal import ApusStore

/// Holds one request for one app's resource, by an identified caller that may make it.
struct APICall {
    let app: AppID
    let caller: Caller
    let path: APIPath
    let request: APIRequest
    /// The caller's share of the memory.
    let memory: MemoryBudget

    /// The device in the path.
    func device() throws(ProblemDetails) -> DeviceID {
        do throws(IdentifierError) { return try DeviceID(self.path["device"]) } catch { throw Self.malformed(error) }
    }

    /// The user in the path.
    func user() throws(ProblemDetails) -> UserID {
        do throws(IdentifierError) { return try UserID(self.path["user"]) } catch { throw Self.malformed(error) }
    }

    /// The topic in the path.
    func topic() throws(ProblemDetails) -> TopicName {
        do throws(IdentifierError) { return try TopicName(self.path["topic"]) } catch { throw Self.malformed(error) }
    }

    /// The send in the path.
    func send() throws(ProblemDetails) -> SendID {
        do throws(IdentifierError) { return try SendID(self.path["send"]) } catch { throw Self.malformed(error) }
    }

    /// Returns a condition that also demands that the caller may change the device.
    func condition(_ other: DeviceCondition) -> DeviceCondition {
        guard case .user(let user) = self.caller else { return other }
        return .belongs(to: user, and: other)
    }

    private static func malformed(_ error: IdentifierError) -> ProblemDetails {
        ProblemDetails(.malformedRequest, "\(error)")
    }
}
