/// A JSON value, RFC 8259.
///
/// Objects keep their order and numbers their digits, so that parsing and writing gives the same text except for spaces
/// and the choice of escapes.
public indirect enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number as written.
    case number(JSONNumber)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object.
    case object(JSONObject)

    /// Creates a whole number.
    public static func integer(_ value: some FixedWidthInteger) -> JSONValue { .number(JSONNumber(value)) }

    /// True for `null`.
    public var isNull: Bool { self == .null }

    /// The string; nil for other values.
    public var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    /// The boolean; nil for other values.
    public var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The integer, within 64 bits; nil for other values.
    public var int64: Int64? {
        guard case .number(let value) = self else { return nil }
        return value.int64
    }

    /// The number, within a double's range; nil for other values.
    public var double: Double? {
        guard case .number(let value) = self else { return nil }
        return value.double
    }

    /// The elements of an array; nil for other values.
    public var array: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    /// The members of an object; nil for other values.
    public var object: JSONObject? {
        guard case .object(let value) = self else { return nil }
        return value
    }

    /// The member of a name; nil for other values and for missing members.
    public subscript(name: String) -> JSONValue? { self.object?[name] }

    /// Applies a merge patch, RFC 7396: members of objects are replaced one by one at every level, `null` removes, and
    /// anything that is not an object replaces the whole.
    public mutating func merge(_ patch: JSONValue) {
        guard case .object(let changes) = patch else {
            self = patch
            return
        }
        var result = self.object ?? [:]
        for change in changes.members {
            if change.value.isNull {
                result[change.name] = nil
            } else {
                var value = result[change.name] ?? .null
                value.merge(change.value)
                result[change.name] = value
            }
        }
        self = .object(result)
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Creates a whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Creates a truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Creates an array.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// `null`.
    public init(nilLiteral: ()) { self = .null }
    /// Creates an object in the given order; a repeated name is a programming error.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (name, value) in elements {
            precondition(object[name] == nil, "a JSON object names a member twice")
            object[name] = value
        }
        self = .object(object)
    }
}
