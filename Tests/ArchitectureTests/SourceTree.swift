import Foundation

/// The package's own source text, as the tests of taste read it.
enum SourceTree {
    struct File {
        let target: String
        let path: String
        let lines: [Substring]
    }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Every Swift file under `Sources`, sorted by path.
    static func swiftFiles() throws -> [File] {
        let sources = root.appending(path: "Sources")
        let enumerator = FileManager.default.enumerator(atPath: sources.path())
        var files: [File] = []
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix(".swift") else { continue }
            let text = try String(contentsOf: sources.appending(path: path), encoding: .utf8)
            let target = String(path.prefix { $0 != "/" })
            files.append(
                File(target: target, path: path, lines: text.split(separator: "\n", omittingEmptySubsequences: false))
            )
        }
        return files.sorted { $0.path < $1.path }
    }

    /// The module named by an import line, whatever its access level or attributes.
    static func importedModule(_ line: Substring) -> String? {
        var words = line.split(separator: " ")[...]
        while let first = words.first, ["public", "package", "internal", "private", "@preconcurrency"].contains(first) {
            words = words.dropFirst()
        }
        guard words.first == "import", let name = words.dropFirst().last else { return nil }
        return String(name.prefix { $0 != "." })
    }
}
