package import ApusMessages
internal import ApusRegistration
internal import ApusService
internal import Glibc

/// Reads a notification from an operator's file or pipe, in the format of the HTTP API.
package enum NotificationFile {
    /// Reads it.
    ///
    /// - Throws: a sentence about what is wrong with it.
    package static func read(_ path: String) throws(SendArguments.UsageError) -> ApusMessages.Notification {
        let bytes = try Self.bytes(of: path)
        do throws(InvalidJSON) {
            return try NotificationText.read(bytes)
        } catch {
            throw SendArguments.UsageError(description: "\(error)")
        }
    }

    /// Returns the bytes. Of too many it reads no more than show that.
    private static func bytes(of path: String) throws(SendArguments.UsageError) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= NotificationText.bytesMax {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(errno) }
            guard count > 0 else { break }
            bytes.append(contentsOf: chunk[..<count])
        }
        return bytes
    }

    private static func failure(_ code: Int32) -> SendArguments.UsageError {
        SendArguments.UsageError(description: "it cannot be read: \(SystemErrorText.words(code))")
    }
}
