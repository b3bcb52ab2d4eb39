internal import ApusCore

/// Reads the members of a JSON object and collects every mistake.
///
/// A member may have the schema's name or ProtoJSON's camel case (`time_zone`, `timeZone`). Unknown members are ignored, so that newer apps
/// can talk to older services; `null` counts as missing.
struct MemberReader {
    let object: JSONObject
    /// The location of the object: `#`, `#/attributes`.
    let pointer: String
    private(set) var mistakes: [ProblemDetails.Part] = []

    init(_ object: JSONObject, at pointer: String) {
        self.object = object
        self.pointer = pointer
    }

    /// Returns the member; nil when it is missing.
    mutating func value(_ name: String) -> JSONValue? {
        let snake = self.object[name]
        let camel = self.camelMember(name)
        if snake != nil, let camel { self.note(name, "is given twice, as \(name) and as \(camel.name)") }
        guard let value = snake ?? camel?.value, !value.isNull else { return .none }
        return value
    }

    /// Returns true when the member is there, be it `null`.
    func has(_ name: String) -> Bool { self.object[name] != nil || self.camelMember(name) != nil }

    /// Reads a text; nil when it is missing or not a text.
    mutating func text(_ name: String) -> String? {
        guard let value = self.value(name) else { return nil }
        guard let text = value.string else {
            self.note(name, "must be a string")
            return nil
        }
        return text
    }

    /// Reads a whole number of 32 bits; nil when it is missing or not one.
    mutating func number(_ name: String) -> UInt32? {
        guard let value = self.value(name) else { return nil }
        guard let number = value.int64.flatMap({ UInt32(exactly: $0) }) else {
            self.note(name, "must be a whole number from 0")
            return nil
        }
        return number
    }

    /// Reads a time in milliseconds since 1970; nil when it is missing or not one.
    mutating func time(_ name: String) -> UnixMilliseconds? {
        guard let value = self.value(name) else { return nil }
        guard let number = value.int64, (1...Limits.timeMax.value).contains(number) else {
            self.note(name, "must be a time after 1970 in milliseconds, as a whole number")
            return nil
        }
        return UnixMilliseconds(number)
    }

    /// Reads true or false; nil when it is missing or neither.
    mutating func truth(_ name: String) -> Bool? {
        guard let value = self.value(name) else { return nil }
        guard let truth = value.bool else {
            self.note(name, "must be true or false")
            return nil
        }
        return truth
    }

    /// Reads a number; nil when it is missing or not one.
    mutating func double(_ name: String) -> Double? {
        guard let value = self.value(name) else { return nil }
        guard let number = value.double else {
            self.note(name, "must be a number")
            return nil
        }
        return number
    }

    /// Reads a list of objects; nil when it is missing or not one.
    mutating func objects(_ name: String) -> [JSONObject]? {
        guard let value = self.value(name) else { return nil }
        guard let elements = value.array else {
            self.note(name, "must be an array of objects")
            return nil
        }
        var objects: [JSONObject] = []
        for (index, element) in elements.enumerated() {
            guard let object = element.object else {
                self.note("\(name)/\(index)", "must be an object")
                continue
            }
            objects.append(object)
        }
        return objects
    }

    /// Reads a JSON object as text: given as an object, or as its text, which is not parsed. Nil when it is missing or neither.
    mutating func jsonText(_ name: String) -> String? {
        guard let value = self.value(name) else { return nil }
        if let text = value.string { return text }
        guard let object = value.object else {
            self.note(name, "must be an object, or the text of one")
            return nil
        }
        return JSONValue.object(object).text
    }

    /// Reads one of some words; nil when it is missing or another word.
    mutating func word<Word>(_ name: String, _ words: [Word], _ nameOf: (Word) -> String) -> Word? {
        guard let text = self.text(name) else { return nil }
        if let word = words.first(where: { nameOf($0) == text }) { return word }
        self.note(name, "must be one of " + words.map(nameOf).joined(separator: ", "))
        return nil
    }

    /// Reads a list of texts; nil when it is missing or not one.
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

    /// Reads an object; nil when it is missing or not one.
    mutating func object(_ name: String) -> JSONObject? {
        guard let value = self.value(name) else { return nil }
        guard let object = value.object else {
            self.note(name, "must be an object")
            return nil
        }
        return object
    }

    /// Reads bytes in base64url; nil when they are missing or not that.
    mutating func bytes(_ name: String) -> [UInt8]? {
        guard let text = self.text(name) else { return nil }
        guard let bytes = Base64URL.decode(text) else {
            self.note(name, "must be base64url")
            return nil
        }
        return bytes
    }

    /// Records a mistake; without a name it is of the object itself.
    mutating func note(_ name: String, _ detail: String) {
        self.mistakes.append(.init(pointer: name.isEmpty ? self.pointer : "\(self.pointer)/\(name)", detail: detail))
    }

    /// Adds the mistakes of an object within this one.
    mutating func take(_ mistakes: [ProblemDetails.Part]) { self.mistakes += mistakes }

    /// The member whose name is the camel case of that one; nil: there is none, or the two are the same.
    private func camelMember(_ name: String) -> JSONObject.Member? {
        guard name.utf8.contains(UInt8(ascii: "_")) else { return nil }
        return self.object.members.first { Self.isCamelCase($0.name, of: name) }
    }

    /// Returns true when a text is `name` in camel case, such as `badgeCount` for `badge_count`.
    private static func isCamelCase(_ text: String, of name: String) -> Bool {
        var rest = text.utf8[...]
        var beginsWord = false
        for byte in name.utf8 {
            guard byte != UInt8(ascii: "_") else {
                beginsWord = true
                continue
            }
            let isLower = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
            guard rest.popFirst() == (beginsWord && isLower ? byte - 0x20 : byte) else { return false }
            beginsWord = false
        }
        return rest.isEmpty
    }
}
