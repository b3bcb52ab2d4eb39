import Foundation

/// The package's own source text, as the tests of taste read it.
enum SourceTree {
    struct File {
        let target: String
        let path: String
        let lines: [Substring]

        /// The first folder below the target; empty: the file lies in the target itself.
        var folder: String {
            let parts = self.path.split(separator: "/")
            return parts.count > 2 ? String(parts[1]) : ""
        }

        /// The types that the file declares at its outermost level.
        var declaredTypes: [String] {
            self.lines.compactMap { line in
                guard let first = line.first, first != " ", first != "/" else { return nil }
                let words = SourceTree.words(ofCode: line)
                guard !words.contains("extension"),
                    let keyword = words.firstIndex(where: {
                        ["struct", "class", "enum", "actor", "protocol"].contains($0)
                    })
                else { return nil }
                return words.dropFirst(keyword + 1).first
            }
        }
    }

    /// The identifiers of a line outside of its comment.
    static func words(ofCode line: Substring) -> [String] {
        let code = line.firstRange(of: "//").map { line[..<$0.lowerBound] } ?? line
        return code.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
    }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Every Swift file under a folder, sorted by path.
    static func swiftFiles(under folder: String = "Sources") throws -> [File] {
        try self.files(under: folder, suffixes: [".swift"])
    }

    /// Every file under a folder whose name ends with one of the suffixes, sorted by path.
    static func files(under folder: String, suffixes: [String]) throws -> [File] {
        let sources = root.appending(path: folder)
        let enumerator = FileManager.default.enumerator(atPath: sources.path())
        var files: [File] = []
        while let path = enumerator?.nextObject() as? String {
            guard suffixes.contains(where: { path.hasSuffix($0) }) else { continue }
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
        while let first = words.first,
            ["public", "package", "internal", "private", "@preconcurrency", "@testable"].contains(first)
        {
            words = words.dropFirst()
        }
        // Indented, it is text of a test.
        guard line.first?.isWhitespace == false, words.first == "import", let name = words.dropFirst().last else {
            return nil
        }
        return String(name.prefix { $0 != "." })
    }
}
