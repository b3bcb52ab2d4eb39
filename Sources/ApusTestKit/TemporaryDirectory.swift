internal import FoundationEssentials
internal import Glibc

/// Folders of tests: short paths, since a unix socket's has at most 107 bytes.
package enum TemporaryDirectory {
    /// Makes a folder that nobody else may read.
    package static func make(_ prefix: String) throws -> String {
        let base = FileManager.default.temporaryDirectory.path
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw RedisServerError("no folder in \(base): errno \(errno)") }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes a folder and all in it.
    package static func remove(_ path: String) {
        try? FileManager.default.removeItem(atPath: path)
    }
}
