internal import ApusCore
package import ApusMessages

/// Reads a notification from a file, as the body of `POST …/sends` has it, by the same reader with the same names. It is pure.
package enum NotificationText {
    /// The maximum of bytes of a text.
    package static let bytesMax = APILimits.sendBytesMax

    /// Reads a notification.
    package static func read(_ bytes: [UInt8]) throws(InvalidJSON) -> Notification {
        do throws(ProblemDetails) {
            var reader = MemberReader(try RegistrationBody.object(bytes, bytesMax: Self.bytesMax))
            let notification = NotificationBody.read(&reader)
            try reader.check()
            return notification
        } catch {
            throw InvalidJSON(error)
        }
    }
}
