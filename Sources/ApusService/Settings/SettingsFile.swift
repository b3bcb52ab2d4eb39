internal import Foundation
internal import Yams

/// A configuration file as a flat list of keys, each with its line: what unknown keys and messages need, and what
/// swift-configuration's own YAML snapshot keeps to itself.
struct SettingsFile {
    enum Value: Hashable {
        case scalar(String)
        case list([String])
        /// A mapping: its own keys stand beside it.
        case section
        /// A key without a value.
        case nothing
    }

    struct Entry: Hashable {
        let path: [String]
        let value: Value
        let line: Int
    }

    /// Bytes of a configuration file.
    static let bytesMax = 1 << 20
    /// Nesting of a configuration file.
    static let depthMax = 8

    let name: String
    /// In the order of the file.
    let entries: [Entry]

    /// Nothing configured.
    static let empty = SettingsFile(name: "", entries: [])

    private init(name: String, entries: [Entry]) {
        self.name = name
        self.entries = entries
    }

    /// Reads and parses.
    ///
    /// - Throws: a `SettingsError` naming the file and the line.
    static func load(path: String) throws(SettingsError) -> SettingsFile {
        let name = URL(filePath: path).lastPathComponent
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Self.error(path, nil, "cannot be read")
        }
        guard data.count <= Self.bytesMax else { throw Self.error(path, nil, "is larger than 1 MiB") }
        guard let text = String(data: data, encoding: .utf8) else { throw Self.error(path, nil, "is not UTF-8") }
        return try Self.parse(text, name: name)
    }

    static func parse(_ text: String, name: String) throws(SettingsError) -> SettingsFile {
        let root: Node?
        do {
            root = try Yams.compose(yaml: text)
        } catch {
            throw Self.error(name, Self.line(of: error), "is not valid YAML: \(Self.reason(of: error))")
        }
        guard let root, root.tag != Tag(.null) else { return SettingsFile(name: name, entries: []) }
        guard case .mapping(let mapping) = root else { throw Self.error(name, 1, "must be a mapping of keys") }
        var entries: [Entry] = []
        try Self.collect(mapping, under: [], name: name, into: &entries)
        return SettingsFile(name: name, entries: entries)
    }

    private static func collect(
        _ mapping: Node.Mapping,
        under path: [String],
        name: String,
        into entries: inout [Entry],
    ) throws(SettingsError) {
        for (keyNode, node) in mapping {
            let line = keyNode.mark?.line ?? 0
            guard let key = keyNode.scalar?.string, !key.isEmpty else {
                throw Self.error(name, line, "a key must be a word")
            }
            let full = path + [key]
            guard full.count <= Self.depthMax else { throw Self.error(name, line, "is nested too deeply") }
            switch node {
            case .mapping(let inner):
                entries.append(Entry(path: full, value: .section, line: line))
                try Self.collect(inner, under: full, name: name, into: &entries)
            case .sequence(let list):
                let items = list.compactMap { $0.scalar?.string }
                guard items.count == list.count else {
                    throw Self.error(name, line, "\(full.joined(separator: ".")) must be a list of words")
                }
                entries.append(Entry(path: full, value: .list(items), line: line))
            case .scalar(let scalar):
                let isNothing = node.tag == Tag(.null)
                entries.append(Entry(path: full, value: isNothing ? .nothing : .scalar(scalar.string), line: line))
            case .alias:
                throw Self.error(name, line, "aliases are not supported")
            }
        }
    }

    private static func error(_ name: String, _ line: Int?, _ message: String) -> SettingsError {
        let place = line.map { "\(name):\($0)" } ?? name
        return SettingsError(issues: [SettingsIssue(key: "", place: place, message: message)])
    }

    private static func line(of error: any Error) -> Int? {
        switch error as? YamlError {
        case .scanner(_, _, let mark, _), .parser(_, _, let mark, _), .composer(_, _, let mark, _): mark.line
        case .duplicatedKeysInMapping(_, let context): context.mark.line
        default: nil
        }
    }

    /// What is wrong in a few words: the library's own text repeats the line, which may hold a secret.
    private static func reason(of error: any Error) -> String {
        switch error as? YamlError {
        case .scanner(_, let problem, _, _), .parser(_, let problem, _, _), .composer(_, let problem, _, _): problem
        case .duplicatedKeysInMapping(let keys, _): "the key \(keys.first ?? "") stands there twice"
        default: "it cannot be parsed"
        }
    }
}
