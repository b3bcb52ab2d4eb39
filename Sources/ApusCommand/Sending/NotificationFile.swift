package import ApusMessages
internal import ApusRegistration
internal import ApusService
internal import FoundationEssentials

/// Reads a notification from an operator's file, in the format of the HTTP API.
package enum NotificationFile {
    /// Reads the file.
    ///
    /// - Throws: a sentence about what is wrong with it.
    package static func read(_ path: String) throws(SendArguments.UsageError) -> ApusMessages.Notification {
        guard let data = FileManager.default.contents(atPath: path) else {
            let reason = fileProblem(path) ?? "the file system refused it"
            throw SendArguments.UsageError(description: "it cannot be read: \(reason)")
        }
        do throws(InvalidJSON) {
            return try NotificationText.read(Array(data))
        } catch {
            throw SendArguments.UsageError(description: "\(error)")
        }
    }
}
