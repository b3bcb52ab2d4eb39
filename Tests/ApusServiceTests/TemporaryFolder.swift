import Foundation

/// A folder that goes when its owner goes.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        self.path = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID().uuidString)")
            .path(percentEncoded: false)
        try? FileManager.default.createDirectory(atPath: self.path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.path) }

    /// Writes a file, by replacing it whole, and returns its path.
    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        let path = "\(self.path)/\(name)"
        try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
        return path
    }
}
