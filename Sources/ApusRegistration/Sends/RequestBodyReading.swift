internal import ApusCore
internal import HTTPTypes

/// Reads the bodies of requests without serving them, so that the readers can be tried with any bytes. It is pure.
package enum RequestBodyReading {
    /// The kinds of bodies.
    package enum Kind: Sendable {
        /// `PUT …/devices/{device}`, in JSON.
        case registration
        /// `PATCH …/devices/{device}`.
        case patch
        /// `POST …/sends`, in JSON.
        case send
        /// `POST …/devices/{device}/events`.
        case events
        /// gorush's `POST /api/push`.
        case gorush
        /// Matrix' `POST /_matrix/push/v1/notify`.
        case matrix
    }

    /// The answer to a body that is refused.
    package struct Refusal: Hashable, Sendable {
        /// The HTTP status.
        package let status: Int
        /// The problem document.
        package let body: [UInt8]
    }

    /// Reads a body as a request to the app `app` and the device `device` would bring it; nil when it is accepted.
    package static func refusal(of bytes: [UInt8], as kind: Kind) -> Refusal? {
        do throws(ProblemDetails) {
            try Self.read(bytes, as: kind)
            return nil
        } catch {
            return Refusal(status: error.kind.status.code, body: error.json(requestID: "0"))
        }
    }

    /// Returns the answer to a request in gorush's form of which nothing is published; nil when the whole request is refused.
    package static func gorushAnswer(to bytes: [UInt8]) -> [UInt8]? {
        guard let readings = try? GorushAPI.notifications(bytes) else { return nil }
        var answer = GorushAnswer()
        for reading in readings {
            let mistakes = reading.mistakes.isEmpty ? "refused" : ProblemDetails.invalid(reading.mistakes).sentence
            answer.refuse(reading.notification, mistakes)
        }
        return Array(JSONValue.object(answer.json).text.utf8)
    }

    private static func read(_ bytes: [UInt8], as kind: Kind) throws(ProblemDetails) {
        let now = UnixMilliseconds(seconds: 1_700_000_000)
        guard let app = try? AppID("app"), let device = try? DeviceID("device") else {
            preconditionFailure("both are names")
        }
        switch kind {
        case .registration:
            _ = try RegistrationBody.read(bytes, as: .json, device: device, hosts: EndpointHosts())
        case .patch: _ = try DevicePatch(bytes)
        case .send: _ = try SendBody.read(bytes, as: .json, app: app, now: now)
        case .events: _ = try EventsBody.read(bytes, app: app, device: device, now: now)
        case .gorush:
            for reading in try GorushAPI.notifications(bytes) {
                guard reading.mistakes.isEmpty else { throw .invalid(reading.mistakes) }
                for command in reading.notification.commands(for: app) { try SendBody.check(command, now: now) }
            }
        case .matrix:
            let body = try MatrixBody(bytes)
            for pusher in body.devices {
                for provider in [Provider.apns, .fcm, .webpush] {
                    _ = try MatrixAPI.command(body, pusher, to: device.text, at: provider, of: app, now: now)
                }
            }
        }
    }
}
