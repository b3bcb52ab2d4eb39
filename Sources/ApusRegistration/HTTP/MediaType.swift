/// Names the media types of the API.
enum MediaType: Hashable {
    /// `application/json`.
    case json
    /// `application/protobuf` (RFC 9996), and its older names.
    case protobuf
    /// `application/merge-patch+json` (RFC 7396).
    case mergePatch
    /// `application/x-ndjson`: one JSON value per line (https://github.com/ndjson/ndjson-spec).
    case ndjson

    /// The registered name.
    var name: String {
        switch self {
        case .json: "application/json"
        case .protobuf: "application/protobuf"
        case .mergePatch: "application/merge-patch+json"
        case .ndjson: "application/x-ndjson"
        }
    }

    private static let names: [String: MediaType] = [
        "application/json": .json,
        "application/protobuf": .protobuf, "application/x-protobuf": .protobuf, "application/x-protobuffer": .protobuf,
        "application/merge-patch+json": .mergePatch,
        "application/x-ndjson": .ndjson, "application/ndjson": .ndjson,
    ]

    /// Reads a `Content-Type`; nil for another type, or another character set than UTF-8.
    init?(contentType: String) {
        // Nearly every client sends this text.
        if contentType == "application/json" {
            self = .json
            return
        }
        let parts = contentType.lowercased().split(separator: ";").map(Self.trimmed)
        guard let name = parts.first, let type = Self.names[name] else { return nil }
        for parameter in parts.dropFirst() where parameter.hasPrefix("charset=") {
            guard ["charset=utf-8", "charset=\"utf-8\""].contains(parameter) else { return nil }
        }
        self = type
    }

    /// Returns the type of the answer: protobuf when the client prefers it to JSON, else JSON (RFC 9110 §12.5.1).
    static func answer(accept: String?) -> MediaType {
        guard let accept, accept.contains("proto") else { return .json }
        var json = 0.0
        var protobuf = 0.0
        for range in accept.lowercased().split(separator: ",") {
            let parts = range.split(separator: ";").map(Self.trimmed)
            guard let name = parts.first else { continue }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            switch Self.names[name] {
            case .protobuf?: protobuf = max(protobuf, weight)
            case .json?: json = max(json, weight)
            default: break
            }
        }
        return protobuf > json ? .protobuf : .json
    }

    private static func trimmed(_ text: Substring) -> String {
        let text = text.drop { $0 == " " }
        guard let last = text.lastIndex(where: { $0 != " " }) else { return "" }
        return String(text[...last])
    }
}
