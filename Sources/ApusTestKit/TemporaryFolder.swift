internal import FoundationEssentials

/// A folder of a test, which goes when its owner goes.
package final class TemporaryFolder: Sendable {
    /// Where it is.
    package let path: String

    /// Makes one that nobody else may read.
    package init() throws { self.path = try TemporaryDirectory.make("apus") }

    deinit { TemporaryDirectory.remove(self.path) }

    /// Writes a file, by replacing it whole, and returns its path.
    @discardableResult
    package func write(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
        let path = "\(self.path)/\(name)"
        try Data(bytes).write(to: URL(filePath: path), options: .atomic)
        return path
    }

    /// Writes a text file, by replacing it whole, and returns its path.
    @discardableResult
    package func write(_ name: String, _ text: String) throws -> String { try self.write(name, text.utf8) }
}
