internal import ApusCore
internal import ApusMessages
internal import ApusStore

/// Reads conditions of a request: RFC 9110 §13.
enum EntityTags {
    /// Returns the condition for a change, from `If-Match` and `If-None-Match`.
    ///
    /// The form of `If-None-Match` that a change may have is `*`: "only if there is none yet".
    static func condition(ifMatch: String?, ifNoneMatch: String?) throws(ProblemDetails) -> DeviceCondition {
        switch (ifMatch, ifNoneMatch) {
        case (nil, nil): return .none
        case (let ifMatch?, nil):
            if Self.trimmed(ifMatch) == "*" { return .exists }
            // A weak tag never matches strongly (RFC 9110 §8.8.3.2), so it can be left out.
            let tags = try Self.tags(ifMatch, of: "If-Match").filter { !$0.hasPrefix("W/") }
            return .matches(tags.map { Self.recordTag($0) })
        case (nil, let ifNoneMatch?):
            guard Self.trimmed(ifNoneMatch) == "*" else {
                throw ProblemDetails(.malformedRequest, "for a change, If-None-Match may only be *")
            }
            return .absent
        case (_?, _?):
            throw ProblemDetails(.malformedRequest, "If-Match and If-None-Match exclude each other here")
        }
    }

    /// Returns the tag of a device document: `"<record>-<badge>"` in JSON, and `"<record>-<badge>-protobuf"`. Two forms of one document have
    /// two strong tags (RFC 9110 §8.8.3.3).
    static func tag(of device: StoredDevice, badge: UInt32, as type: MediaType) -> String {
        "\(device.etag.dropLast())-\(badge)\(type == .protobuf ? "-protobuf" : "")\""
    }

    /// Returns the record's part of a tag, which has no hyphen. A condition of a change concerns the record: sends that count the badge up
    /// meanwhile change nothing that the caller has seen of it, in whichever form.
    private static func recordTag(_ tag: String) -> String {
        tag.firstIndex(of: "-").map { "\(tag[..<$0])\"" } ?? tag
    }

    /// Returns true when the caller of a GET has that state already.
    static func isKnown(_ etag: String, ifNoneMatch: String?) throws(ProblemDetails) -> Bool {
        guard let ifNoneMatch else { return false }
        if Self.trimmed(ifNoneMatch) == "*" { return true }
        return try Self.tags(ifNoneMatch, of: "If-None-Match").contains { $0 == etag || $0 == "W/\(etag)" }
    }

    /// Reads a list of entity tags (RFC 9110 §8.8.3).
    private static func tags(_ text: String, of header: String) throws(ProblemDetails) -> [String] {
        var tags: [String] = []
        for part in text.split(separator: ",") {
            let tag = Self.trimmed(part)
            let opaque = tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...]
            guard opaque.count >= 2, opaque.hasPrefix("\""), opaque.hasSuffix("\"") else {
                throw ProblemDetails(.malformedRequest, "\(header) must be * or a list of entity tags in quotes")
            }
            tags.append(tag)
        }
        guard !tags.isEmpty else { throw ProblemDetails(.malformedRequest, "\(header) is empty") }
        return tags
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        let start = text.drop(while: isSpace)
        guard let last = start.lastIndex(where: { !isSpace($0) }) else { return "" }
        return String(start[...last])
    }
}
