internal import ApusCore
package import ApusMessages

/// Reads a notification from a file, as the body of `POST …/sends` has it, by the same reader with the same names. It is pure.
package enum NotificationText {
    /// The maximum of bytes of a text.
    package static let bytesMax = APILimits.sendBytesMax

    /// Reads a notification.
    ///
    /// - Throws: the first mistake, with the path of the member.
    package static func read(_ bytes: [UInt8]) throws(Problem) -> Notification {
        let object: JSONObject
        do throws(ProblemDetails) {
            object = try RegistrationBody.object(bytes, bytesMax: Self.bytesMax)
        } catch {
            throw Problem(code: "malformed_json", detail: error.parts.first?.detail ?? error.detail)
        }
        var reader = NotificationBody(object, at: "#")
        let notification = reader.read()
        guard let mistake = reader.mistakes.first else { return notification }
        throw Problem(
            code: "malformed",
            field: String(mistake.pointer.drop { $0 == "#" || $0 == "/" }),
            detail: mistake.detail
        )
    }
}
