internal import ApusCore

/// Reads the members of a JSON object and gathers every mistake.
///
/// A member may be named as the schema names it or in ProtoJSON's camel case (`time_zone`, `timeZone`). Members that
/// nobody asks for are ignored, so that newer apps can talk to older services; `null` is as good as missing.
struct MemberReader {
    let object: JSONObject
    /// Where the object is: `#`, `#/attributes`.
    let pointer: String
    private(set) var mistakes: [ProblemDetails.Part] = []

    init(_ object: JSONObject, at pointer: String) {
        self.object = object
        self.pointer = pointer
    }

    /// The member; nil: missing.
    mutating func value(_ name: String) -> JSONValue? {
        let snake = self.object[name]
        let camelName = Self.camelCase(name)
        let camel = camelName == name ? nil : self.object[camelName]
        if snake != nil, camel != nil { self.note(name, "is given twice, as \(name) and as \(camelName)") }
        guard let value = snake ?? camel, !value.isNull else { return .none }
        return value
    }

    /// Whether the member is there, be it `null`.
    func has(_ name: String) -> Bool { self.object[name] != nil || self.object[Self.camelCase(name)] != nil }

    /// A text; nil: missing, or not one.
    mutating func text(_ name: String) -> String? {
        guard let value = self.value(name) else { return nil }
        guard let text = value.string else {
            self.note(name, "must be a string")
            return nil
        }
        return text
    }

    /// One of some words; nil: missing, or another word.
    mutating func word<Word>(_ name: String, _ words: [Word], _ nameOf: (Word) -> String) -> Word? {
        guard let text = self.text(name) else { return nil }
        if let word = words.first(where: { nameOf($0) == text }) { return word }
        self.note(name, "must be one of " + words.map(nameOf).joined(separator: ", "))
        return nil
    }

    /// A list of texts; nil: missing, or not one.
    mutating func texts(_ name: String) -> [String]? {
        guard let value = self.value(name) else { return nil }
        guard let elements = value.array else {
            self.note(name, "must be an array of strings")
            return nil
        }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard let text = element.string else {
                self.note("\(name)/\(index)", "must be a string")
                continue
            }
            texts.append(text)
        }
        return texts
    }

    /// An object; nil: missing, or not one.
    mutating func object(_ name: String) -> JSONObject? {
        guard let value = self.value(name) else { return nil }
        guard let object = value.object else {
            self.note(name, "must be an object")
            return nil
        }
        return object
    }

    /// Bytes in base64url; nil: missing, or not that.
    mutating func bytes(_ name: String) -> [UInt8]? {
        guard let text = self.text(name) else { return nil }
        guard let bytes = Base64URL.decode(text) else {
            self.note(name, "must be base64url")
            return nil
        }
        return bytes
    }

    /// Notes a mistake.
    mutating func note(_ name: String, _ detail: String) {
        self.mistakes.append(.init(pointer: "\(self.pointer)/\(name)", detail: detail))
    }

    private static func camelCase(_ name: String) -> String {
        guard name.utf8.contains(UInt8(ascii: "_")) else { return name }
        let words = name.split(separator: "_")
        return words[0] + words.dropFirst().map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}
