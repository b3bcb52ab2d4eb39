internal import ApusCore
package import ApusMessages

/// A notification as the body of `POST …/sends` says it, for whoever has one in a file: the same reader, the same names. Pure.
package enum NotificationText {
    /// Bytes of a text.
    package static let bytesMax = APILimits.sendBytesMax

    /// Reads one.
    ///
    /// - Throws: the first of what is wrong, with the path of the member.
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
