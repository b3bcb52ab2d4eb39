internal import ApusCore

/// Reads the target of a request: a route, and a value for each of its parameters. It is pure.
struct APIPath: Hashable {
    /// The maximum length of an unknown name of the query in an answer.
    private static let nameBytesMax = 64

    /// The path's template.
    let route: HTTPRoute
    /// The value of each parameter, without percent encoding. It is not checked here whether it is a valid id and whether the app exists.
    private let values: [String: String]
    /// The query after the question mark; empty when there is none.
    private let query: String

    private struct Segment {
        /// The constant segment; nil for a parameter.
        let literal: [UInt8]?
        let name: String
    }

    private static let templates: [(route: HTTPRoute, segments: [Segment])] = HTTPRoute.allCases.compactMap { route in
        guard route != .none else { return nil }
        let parts = route.template.split(separator: "/", omittingEmptySubsequences: false)
        let segments = parts.map { part in
            part.hasPrefix("{")
                ? Segment(literal: nil, name: String(part.dropFirst().dropLast()))
                : Segment(literal: Array(part.utf8), name: "")
        }
        return (route, segments)
    }

    /// Reads the target of a request; nil when no route matches.
    init?(_ target: String) {
        let path = target.utf8.prefix { $0 != UInt8(ascii: "?") }
        let parts = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (route, segments) in Self.templates where segments.count == parts.count {
            guard let values = Self.match(parts, segments) else { continue }
            self.route = route
            self.values = values
            self.query = String(Substring(target.utf8.dropFirst(path.count + 1)))
            return
        }
        return nil
    }

    /// The app's name; nil when the route has none.
    var app: String? { self.values["app"] }

    /// Returns the value of a parameter of the route.
    subscript(name: String) -> String {
        guard let value = self.values[name] else { preconditionFailure("the route has no parameter \(name)") }
        return value
    }

    /// Returns the value of a parameter of the query (WHATWG URL §5.1); nil when it is missing or malformed.
    func query(_ name: String) -> String? {
        for (found, value) in self.queryPairs where found.elementsEqual(name.utf8) {
            return value.isEmpty ? "" : Self.decoded(value)
        }
        return nil
    }

    /// Checks the query: a misspelt name would otherwise be ignored, and the request do what was not meant.
    ///
    /// - Throws: the mistake, when a name is unknown or repeated, or a value is malformed.
    func checkQuery(_ verb: HTTPVerb) throws(ProblemDetails) {
        let known = self.route.queryNames(verb)
        var seen: Set<String> = []
        for (found, value) in self.queryPairs {
            guard let name = Self.decoded(found), known.contains(name) else {
                let name = String(String(Substring(found)).prefix(Self.nameBytesMax))
                let meant = closest(to: name, among: known).map { "; did you mean \($0)?" } ?? ""
                throw ProblemDetails(.malformedRequest, "the query has an unknown parameter \(name)\(meant)")
            }
            guard seen.insert(name).inserted else {
                throw ProblemDetails(.malformedRequest, "the query has \(name) more than once")
            }
            guard value.isEmpty || Self.decoded(value) != nil else {
                let rule = "the value of \(name) in the query must be percent-encoded UTF-8"
                throw ProblemDetails(.malformedRequest, rule)
            }
        }
    }

    /// The names and values of the query, still percent-encoded.
    private var queryPairs: [(name: Substring.UTF8View, value: Substring.UTF8View)] {
        self.query.utf8.split(separator: UInt8(ascii: "&")).map { pair in
            let name = pair.prefix { $0 != UInt8(ascii: "=") }
            return (name, pair[name.endIndex...].dropFirst())
        }
    }

    private static func match(_ parts: [Substring.UTF8View], _ segments: [Segment]) -> [String: String]? {
        // Constants first: most templates differ in one, and then nothing is decoded.
        for (part, segment) in zip(parts, segments) {
            if let literal = segment.literal, !part.elementsEqual(literal) { return nil }
        }
        var values: [String: String] = [:]
        for (part, segment) in zip(parts, segments) where segment.literal == nil {
            guard let value = Self.decoded(part) else { return nil }
            values[segment.name] = value
        }
        return values
    }

    /// Returns a segment without its percent encoding (RFC 3986 §2.1); nil when that is broken, when nothing is left or when the bytes are
    /// not UTF-8.
    private static func decoded(_ segment: Substring.UTF8View) -> String? {
        guard !segment.isEmpty else { return nil }
        guard segment.contains(UInt8(ascii: "%")) else { return String(Substring(segment)) }
        var bytes: [UInt8] = []
        var rest = segment[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let decoded = Hexadecimal.decode(Substring(rest.prefix(2))), decoded.count == 1 else { return nil }
            bytes += decoded
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
