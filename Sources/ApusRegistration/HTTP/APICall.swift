internal import ApusCore

/// One request for one app's resource, by somebody who proved to be that caller and may ask it.
struct APICall {
    let app: AppID
    let caller: Caller
    let path: APIPath
    let request: APIRequest

    /// The path's device.
    func device() throws(ProblemDetails) -> DeviceID {
        do throws(IdentifierError) { return try DeviceID(self.path["device"]) } catch { throw Self.malformed(error) }
    }

    /// The path's user.
    func user() throws(ProblemDetails) -> UserID {
        do throws(IdentifierError) { return try UserID(self.path["user"]) } catch { throw Self.malformed(error) }
    }

    /// The path's topic.
    func topic() throws(ProblemDetails) -> TopicName {
        do throws(IdentifierError) { return try TopicName(self.path["topic"]) } catch { throw Self.malformed(error) }
    }

    /// The path's send.
    func send() throws(ProblemDetails) -> SendID {
        do throws(IdentifierError) { return try SendID(self.path["send"]) } catch { throw Self.malformed(error) }
    }

    private static func malformed(_ error: IdentifierError) -> ProblemDetails {
        ProblemDetails(.malformedRequest, "\(error)")
    }
}
