package import ApusCore

/// Holds a request's body with gaps for the parts that differ from device to device.
///
/// Everything else is written once, whatever the number of devices.
package struct RenderedBody: Hashable, Sendable {
    /// The segments of the body.
    package enum Segment: Hashable, Sendable {
        /// Bytes that are the same for every device.
        case bytes([UInt8])
        /// The device's token, as text.
        case token
        /// The device's badge, in decimal digits.
        case badge
    }

    /// The segments in order; two runs of bytes are never adjacent.
    package let segments: [Segment]

    /// The digits of the largest badge, `Limits.badgeMax`.
    package static let badgeDigitsMax = 10

    /// True when a badge must be counted for each device.
    package var needsBadge: Bool { self.segments.contains(.badge) }

    /// The maximum bytes of the body, without the token.
    package var bytesMax: Int {
        self.segments.reduce(0) { sum, segment in
            switch segment {
            case .bytes(let bytes): sum + bytes.count
            case .token: sum
            case .badge: sum + Self.badgeDigitsMax
            }
        }
    }

    /// Returns the whole body for one device, for rare uses and tests.
    package func bytes(token: String = "", badge: UInt32 = 0) -> [UInt8] {
        self.segments.reduce(into: []) { result, segment in
            switch segment {
            case .bytes(let bytes): result += bytes
            case .token: result += Array(token.utf8)
            case .badge: result += Array(String(badge).utf8)
            }
        }
    }

    /// Writes an object with gaps.
    ///
    /// - Parameter places: the paths of member names whose values are left out: a text inside its quotes, a number entirely.
    package init(_ object: JSONObject, places: [Place]) {
        var writer = SegmentWriter()
        writer.append(object, depth: 0, places)
        self.segments = writer.finish()
    }

    /// A place in a JSON object whose value differs from device to device.
    package struct Place: Hashable, Sendable {
        /// The member names from the outside in.
        package let path: [String]
        /// The segment that fills the place.
        package let segment: Segment
        /// True when the segment stands inside quotes.
        package let isText: Bool

        /// Creates a place; a token's is always a text.
        package init(_ path: [String], _ segment: Segment, isText: Bool = false) {
            self.path = path
            self.segment = segment
            self.isText = isText || segment == .token
        }
    }
}

/// Writes the segments of an object. It walks objects only: no place lies within an array.
private struct SegmentWriter {
    private var segments: [RenderedBody.Segment] = []
    private var bytes: [UInt8] = []

    /// Most bodies fit, and so does the block among those that the allocator keeps for each thread.
    init() { self.bytes.reserveCapacity(960) }

    /// - Parameters:
    ///   - depth: the number of members that lead to the object.
    ///   - places: the places that lie within the object.
    mutating func append(_ object: JSONObject, depth: Int, _ places: [RenderedBody.Place]) {
        guard !places.isEmpty else { return JSONWriter.append(object, to: &self.bytes) }
        self.bytes.append(0x7b)
        for (index, member) in object.members.enumerated() {
            if index > 0 { self.bytes.append(0x2c) }
            JSONWriter.append(string: member.name, to: &self.bytes)
            self.bytes.append(0x3a)
            let inside = places.filter { $0.path[depth] == member.name }
            if let place = inside.first(where: { $0.path.count == depth + 1 }) {
                self.append(place)
            } else if let inner = member.value.object, !inside.isEmpty {
                self.append(inner, depth: depth + 1, inside)
            } else {
                JSONWriter.append(member.value, to: &self.bytes)
            }
        }
        self.bytes.append(0x7d)
    }

    private mutating func append(_ place: RenderedBody.Place) {
        if place.isText { self.bytes.append(0x22) }
        self.segments.append(.bytes(self.bytes))
        self.segments.append(place.segment)
        self.bytes = place.isText ? [0x22] : []
    }

    mutating func finish() -> [RenderedBody.Segment] {
        self.segments.append(.bytes(self.bytes))
        return self.segments
    }
}
