package import ApusRedis

/// A function of ours as its Lua source declares it.
package struct DeclaredFunction: Sendable {
    /// The function's name.
    package let name: String
    /// The fields: the parameters behind the keys.
    package let fields: [DeclaredField]
    /// True when the function has the flag `no-writes`.
    package let isReadOnly: Bool

    /// Returns every function that the sources register.
    package static func all(in sources: [[UInt8]]) -> [DeclaredFunction] {
        sources.flatMap { source in
            let text = String(decoding: source, as: UTF8.self)
            return text.split(separator: "register_function{").dropFirst().compactMap { Self($0, in: text) }
        }
    }

    private init?(_ declaration: Substring, in text: String) {
        guard let name = declaration.firstMatch(of: /name = '([a-z0-9_]+)'/),
            let run = declaration.firstMatch(of: /run = (?:function|([a-z_]+))/)
        else { return nil }
        let head = declaration[..<run.range.lowerBound]
        // The function stands here, or is one that several share.
        var function = declaration[run.range.upperBound...]
        if let shared = run.1, let start = text.firstRange(of: "local \(shared) = function") {
            function = text[start.upperBound...]
        }
        let lines = function.split(separator: "\n")
        let code = lines.map { line in line.firstRange(of: "--").map { line[..<$0.lowerBound] } ?? line }.joined()
        let parameters = code.prefix { $0 != ")" }.split { "(, ".contains($0) }.dropFirst().map(String.init)
        let bulkCount = head.contains("has_bulk = true") ? 1 : 0
        let requiredCount = head.firstMatch(of: /required = ([0-9]+)/).flatMap { Int($0.1) } ?? 0
        self.name = String(name.1)
        self.isReadOnly = head.contains("no-writes")
        self.fields = parameters.enumerated().map { index, name in
            switch index {
            case ..<bulkCount: DeclaredField(name, .bulk)
            case ..<(bulkCount + requiredCount): DeclaredField(name, .required)
            default: DeclaredField(name, function.contains(" \(name) = \(name) or ") ? .defaulted : .optional)
            }
        }
    }
}
