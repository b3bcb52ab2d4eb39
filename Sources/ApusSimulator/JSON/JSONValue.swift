/// A JSON text as a tree; members keep their order.
package indirect enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case boolean(Bool)
    /// As it was written, and its value.
    case number(text: String, value: Double)
    /// Without escapes.
    case string(String)
    /// In order.
    case array([JSONValue])
    /// In order, no name twice.
    case object([JSONMember])

    /// The members' names and values; nil for anything but an object.
    package var members: [JSONMember]? {
        guard case .object(let members) = self else { return nil }
        return members
    }

    /// The elements; nil for anything but an array.
    package var elements: [JSONValue]? {
        guard case .array(let elements) = self else { return nil }
        return elements
    }

    /// The text; nil for anything but a string.
    package var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The number; nil for anything but a number.
    package var number: Double? {
        guard case .number(_, let value) = self else { return nil }
        return value
    }

    /// The whole number; nil for anything else, `1.0` included.
    package var integer: Int64? {
        guard case .number(let text, _) = self else { return nil }
        return Int64(text)
    }

    /// The truth value; nil for anything else.
    package var boolean: Bool? {
        guard case .boolean(let value) = self else { return nil }
        return value
    }

    /// The member of that name; nil if there is none, or for anything but an object.
    package subscript(_ name: String) -> JSONValue? { self.members?.first { $0.name == name }?.value }
}

/// A name and its value.
package struct JSONMember: Hashable, Sendable {
    /// Without escapes.
    package let name: String
    /// The value.
    package let value: JSONValue
}
