internal import FoundationEssentials
internal import Glibc

/// A folder of a test, which is removed with this object.
package final class TemporaryFolder: Sendable {
    /// The folder's path.
    package let path: String

    /// Creates a folder that other users cannot read.
    package init() throws { self.path = try TemporaryDirectory.make("apus") }

    deinit { TemporaryDirectory.remove(self.path) }

    /// Writes a file, replacing it atomically, and returns its path.
    @discardableResult
    package func write(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
        let path = "\(self.path)/\(name)"
        try Data(bytes).write(to: URL(filePath: path), options: .atomic)
        return path
    }

    /// Writes a text file, replacing it atomically, and returns its path.
    @discardableResult
    package func write(_ name: String, _ text: String) throws -> String { try self.write(name, text.utf8) }
}

/// Creates folders of tests with short paths, since a Unix socket's path has at most 107 bytes.
package enum TemporaryDirectory {
    /// Creates a folder that other users cannot read.
    package static func make(_ prefix: String) throws -> String {
        let base = FileManager.default.temporaryDirectory.path
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else {
            throw RedisServerError("cannot create a folder in \(base): errno \(errno)")
        }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes a folder with its contents.
    package static func remove(_ path: String) {
        try? FileManager.default.removeItem(atPath: path)
    }
}
