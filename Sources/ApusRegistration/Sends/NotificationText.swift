internal import ApusCore
package import ApusMessages

/// Reads a notification from a file, as the body of `POST …/sends` has it, by the same reader with the same names. It is pure.
package enum NotificationText {
    /// The maximum of bytes of a text.
    package static let bytesMax = APILimits.sendBytesMax

    /// Describes everything that is wrong with a text, with the JSON pointer of each mistake.
    package struct Mistake: Error, Hashable, Sendable, CustomStringConvertible {
        /// The broken rules.
        package let description: String
    }

    /// Reads a notification.
    package static func read(_ bytes: [UInt8]) throws(Mistake) -> Notification {
        do throws(ProblemDetails) {
            var reader = MemberReader(try RegistrationBody.object(bytes, bytesMax: Self.bytesMax))
            let notification = NotificationBody.read(&reader)
            try reader.check()
            return notification
        } catch {
            throw Mistake(description: error.sentence)
        }
    }
}
