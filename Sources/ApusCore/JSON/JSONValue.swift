/// A JSON value, RFC 8259.
///
/// Objects keep their order and numbers their digits, so that reading and writing gives the same text but for spaces and
/// the choice of escapes.
public indirect enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true`, `false`.
    case bool(Bool)
    /// A number, as written.
    case number(JSONNumber)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object.
    case object(JSONObject)

    /// A whole number.
    public static func integer(_ value: some FixedWidthInteger) -> JSONValue { .number(JSONNumber(value)) }

    /// Whether it is `null`.
    public var isNull: Bool { self == .null }

    /// The string, if it is one.
    public var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }

    /// The truth value, if it is one.
    public var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The whole number, if it is one within 64 bits.
    public var int64: Int64? {
        guard case .number(let value) = self else { return nil }
        return value.int64
    }

    /// The number, if it is one within a double's range.
    public var double: Double? {
        guard case .number(let value) = self else { return nil }
        return value.double
    }

    /// The elements, if it is an array.
    public var array: [JSONValue]? {
        guard case .array(let value) = self else { return nil }
        return value
    }

    /// The members, if it is an object.
    public var object: JSONObject? {
        guard case .object(let value) = self else { return nil }
        return value
    }

    /// The member of that name, if it is an object and has one.
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
    /// A string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// An array.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// `null`.
    public init(nilLiteral: ()) { self = .null }
    /// An object in the order given; a name given twice is a programmer's error.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (name, value) in elements {
            precondition(object[name] == nil, "a JSON object names a member twice")
            object[name] = value
        }
        self = .object(object)
    }
}
