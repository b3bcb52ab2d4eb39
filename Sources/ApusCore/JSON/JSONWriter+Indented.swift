extension JSONValue {
    /// The text with a line for each member and element, indented by two spaces per level: for files that people compare.
    public var indentedText: String {
        var bytes: [UInt8] = []
        Self.append(self, depth: 0, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func append(_ value: JSONValue, depth: Int, to bytes: inout [UInt8]) {
        switch value {
        case .array(let elements) where !elements.isEmpty:
            Self.appendBlock(elements, 0x5b, 0x5d, depth: depth, to: &bytes) { element, bytes in
                Self.append(element, depth: depth + 1, to: &bytes)
            }
        case .object(let object) where !object.isEmpty:
            Self.appendBlock(object.members, 0x7b, 0x7d, depth: depth, to: &bytes) { member, bytes in
                JSONWriter.append(string: member.name, to: &bytes)
                bytes += [0x3a, 0x20]
                Self.append(member.value, depth: depth + 1, to: &bytes)
            }
        case .null, .bool, .number, .string, .array, .object: JSONWriter.append(value, to: &bytes)
        }
    }

    private static func appendBlock<Item>(
        _ items: [Item],
        _ opening: UInt8,
        _ closing: UInt8,
        depth: Int,
        to bytes: inout [UInt8],
        _ append: (Item, inout [UInt8]) -> Void,
    ) {
        bytes.append(opening)
        for (place, item) in items.enumerated() {
            if place > 0 { bytes.append(0x2c) }
            Self.appendLineBreak(depth: depth + 1, to: &bytes)
            append(item, &bytes)
        }
        Self.appendLineBreak(depth: depth, to: &bytes)
        bytes.append(closing)
    }

    private static func appendLineBreak(depth: Int, to bytes: inout [UInt8]) {
        bytes.append(0x0a)
        bytes.append(contentsOf: repeatElement(0x20, count: depth * 2))
    }
}
