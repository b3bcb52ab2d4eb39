package import ApusMessages
internal import ApusRegistration
internal import FoundationEssentials

/// A notification in a file of the operator's, in the words of the HTTP API.
package enum NotificationFile {
    /// Reads it.
    ///
    /// - Throws: a sentence that names the file and what is wrong with it.
    package static func read(_ path: String) throws(SendArguments.Misuse) -> ApusMessages.Notification {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SendArguments.Misuse(description: "--notification: \(path) cannot be read")
        }
        do throws(Problem) {
            return try NotificationText.read(Array(data))
        } catch {
            throw SendArguments.Misuse(description: "--notification: \(path): \(error)")
        }
    }
}
