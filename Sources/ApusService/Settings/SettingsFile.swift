internal import ApusYAML
internal import FoundationEssentials

/// Represents a configuration file as a flat list of keys, each with its line, so that messages and unknown keys can name it.
struct SettingsFile {
    enum Value: Hashable {
        case scalar(String)
        case list([String])
        /// A mapping, whose own keys are entries of their own.
        case section
        /// A key without a value.
        case nothing
    }

    struct Entry: Hashable {
        let path: [String]
        let value: Value
        let line: Int
    }

    /// The maximum bytes of a configuration file.
    static let bytesMax = 1 << 20
    /// The maximum nesting of a configuration file.
    static let depthMax = 8

    let name: String
    /// The entries in the order of the file.
    let entries: [Entry]

    /// An empty configuration.
    static let empty = SettingsFile(name: "", entries: [])

    private init(name: String, entries: [Entry]) {
        self.name = name
        self.entries = entries
    }

    /// Reads and parses a file.
    ///
    /// - Throws: a `SettingsError` that names the file and the line.
    static func load(path: String) throws(SettingsError) -> SettingsFile {
        let name = URL(filePath: path).lastPathComponent
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Self.error(path, nil, "cannot be read: \(fileProblem(path) ?? "the file system refused it")")
        }
        guard data.count <= Self.bytesMax else { throw Self.error(path, nil, "is larger than 1 MiB") }
        guard let text = String(data: data, encoding: .utf8) else { throw Self.error(path, nil, "is not UTF-8") }
        return try Self.parse(text, name: name)
    }

    static func parse(_ text: String, name: String) throws(SettingsError) -> SettingsFile {
        let root: YAMLNode?
        do throws(YAMLError) {
            root = try YAMLNode.parse(text)
        } catch {
            throw Self.error(name, error.line, "is not valid YAML: \(error.problem)")
        }
        guard let root, root.scalar?.isNull != true else { return SettingsFile(name: name, entries: []) }
        guard case .mapping(let mapping) = root.content else {
            throw Self.error(name, 1, "must be a mapping of keys")
        }
        var entries: [Entry] = []
        try Self.collect(mapping, under: [], name: name, into: &entries)
        return SettingsFile(name: name, entries: entries)
    }

    private static func collect(
        _ mapping: [YAMLPair],
        under path: [String],
        name: String,
        into entries: inout [Entry],
    ) throws(SettingsError) {
        for pair in mapping {
            let line = pair.key.line
            guard let key = pair.key.scalar?.text, !key.isEmpty else {
                throw Self.error(name, line, "a key must be a word")
            }
            let full = path + [key]
            guard full.count <= Self.depthMax else { throw Self.error(name, line, "is nested too deeply") }
            switch pair.value.content {
            case .mapping(let inner):
                entries.append(Entry(path: full, value: .section, line: line))
                try Self.collect(inner, under: full, name: name, into: &entries)
            case .sequence(let list):
                let items = list.compactMap { $0.scalar?.text }
                guard items.count == list.count else {
                    throw Self.error(name, line, "\(full.joined(separator: ".")) must be a list of words")
                }
                entries.append(Entry(path: full, value: .list(items), line: line))
            case .scalar(let scalar):
                entries.append(Entry(path: full, value: scalar.isNull ? .nothing : .scalar(scalar.text), line: line))
            }
        }
    }

    private static func error(_ name: String, _ line: Int?, _ message: String) -> SettingsError {
        let place = line.map { "\(name):\($0)" } ?? name
        return SettingsError(issues: [SettingsIssue(key: "", place: place, message: message)])
    }
}
