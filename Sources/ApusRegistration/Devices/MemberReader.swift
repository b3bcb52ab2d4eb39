internal import ApusCore
internal import Synchronization

/// Reads the members of a JSON object and collects every mistake, up to as many as an answer names.
///
/// A member may have the schema's name or ProtoJSON's camel case (`time_zone`, `timeZone`); `null` counts as missing. Every member that is
/// asked for is known, and `finish()`, which alone returns the mistakes, adds one for each member that nobody asked for: a misspelt member
/// is never taken for a missing one.
struct MemberReader {
    /// The maximum number of unknown members of an object that are named.
    static let unknownMax = 16
    /// The maximum length of a name in a pointer; the mistake of a longer one points to the object.
    static let nameBytesMax = 64

    private let members: JSONObject
    /// The location of the object: `#`, `#/attributes`.
    let pointer: String
    /// True when members that nobody asks for are ignored.
    private let isOpen: Bool
    private var mistakes: [ProblemDetails.Part] = []
    /// The names that were asked for, in the schema's form.
    private var known: [String] = []
    /// The paths of names that were asked for in objects within this one, such as `attributes/locale`.
    private var knownWithin: [String] = []

    /// Creates a reader.
    ///
    /// - Parameter isOpen: true for an object of a foreign format, which may have members that nobody here knows.
    init(_ object: JSONObject, at pointer: String = "#", isOpen: Bool = false) {
        self.members = object
        self.pointer = pointer
        self.isOpen = isOpen
    }

    /// True when a mistake was found so far.
    var hasMistakes: Bool { !self.mistakes.isEmpty }

    /// The places of all members that readers ask for, such as `#/variants/0/title`: for a test, which compares them with the API's document.
    final class AskedMembers: Sendable {
        private let places = Mutex<Set<String>>([])

        /// The places so far.
        var all: Set<String> { self.places.withLock { $0 } }

        fileprivate func record(_ names: [String], at pointer: String) {
            self.places.withLock { $0.formUnion(names.map { "\(pointer)/\($0)" }) }
        }
    }

    /// The record of what is asked for; nil outside of tests.
    @TaskLocal static var asked: AskedMembers?

    /// Returns the mistakes, the unknown members last.
    consuming func finish() -> [ProblemDetails.Part] {
        Self.asked?.record(self.known, at: self.pointer)
        guard !self.isOpen else { return self.mistakes }
        var unknown = 0
        for member in self.members.members where !self.isKnown(member.name) {
            unknown += 1
            guard unknown <= Self.unknownMax else { continue }
            if member.name.utf8.count <= Self.nameBytesMax {
                let suggestion = self.suggestion(for: member.name).map { "; did you mean \($0)?" } ?? ""
                self.note(Self.escaped(member.name), "is not a known member" + suggestion)
            } else {
                self.note("", "has an unknown member with a name of \(member.name.utf8.count) bytes")
            }
        }
        if unknown > Self.unknownMax { self.note("", "has \(unknown - Self.unknownMax) further unknown members") }
        return self.mistakes
    }

    /// Ends the reading of a body.
    ///
    /// - Throws: the problem of all mistakes, if there is one.
    consuming func check() throws(ProblemDetails) {
        let mistakes = self.finish()
        guard mistakes.isEmpty else { throw .invalid(mistakes) }
    }

    /// Returns the member; nil when it is missing.
    mutating func value(_ name: String) -> JSONValue? {
        self.know(name)
        let snake = self.members[name]
        let camel = self.camelMember(name)
        if snake != nil, let camel { self.note(name, "is given twice, as \(name) and as \(camel.name)") }
        guard let value = snake ?? camel?.value, !value.isNull else { return .none }
        return value
    }

    /// Returns true when the member is there, be it `null`.
    mutating func has(_ name: String) -> Bool {
        self.know(name)
        return self.members[name] != nil || self.camelMember(name) != nil
    }

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

    /// Reads an object within this one, and takes its mistakes. One that is missing, or not an object, is read as an empty one.
    ///
    /// - Parameter isOpen: true for an object of a foreign format, which may have members that nobody here knows.
    mutating func members<Value>(
        _ name: String,
        isOpen: Bool = false,
        _ read: (inout MemberReader) -> Value,
    ) -> Value {
        var inner = MemberReader(self.object(name) ?? [:], at: "\(self.pointer)/\(name)", isOpen: isOpen)
        let value = read(&inner)
        self.knownWithin += inner.known.map { "\(name)/\($0)" }
        self.take(inner.finish())
        return value
    }

    /// Reads members, and forgets the mistakes in them: one of another type counts as missing.
    mutating func ignoringMistakes(_ read: (inout MemberReader) -> Void) {
        let mistakes = self.mistakes
        read(&self)
        self.mistakes = mistakes
    }

    /// Reads a list of objects, and takes their mistakes; empty when it is missing, not a list, or longer than it may be.
    mutating func elements<Value>(
        _ name: String,
        countMax: Int = .max,
        isOpen: Bool = false,
        _ read: (inout MemberReader) -> Value,
    ) -> [Value] {
        guard let value = self.value(name) else { return [] }
        guard let elements = value.array else {
            self.note(name, "must be an array of objects")
            return []
        }
        guard elements.count <= countMax else {
            self.note(name, "must have at most \(countMax) elements")
            return []
        }
        var values: [Value] = []
        for (index, element) in elements.enumerated() {
            guard let object = element.object else {
                self.note("\(name)/\(index)", "must be an object")
                continue
            }
            var inner = MemberReader(object, at: "\(self.pointer)/\(name)/\(index)", isOpen: isOpen)
            values.append(read(&inner))
            self.take(inner.finish())
        }
        return values
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

    /// Reads an object with free members; nil when it is missing or not one.
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

    /// Records a mistake; without a name it is of the object itself. Beyond the maximum of an answer one more is kept, which tells that there
    /// are more.
    mutating func note(_ name: String, _ detail: String) {
        guard self.mistakes.count <= ProblemDetails.partsMax else { return }
        self.mistakes.append(.init(pointer: name.isEmpty ? self.pointer : "\(self.pointer)/\(name)", detail: detail))
    }

    /// Takes the mistakes of an object within this one.
    private mutating func take(_ inner: [ProblemDetails.Part]) {
        self.mistakes += inner.prefix(max(0, ProblemDetails.partsMax + 1 - self.mistakes.count))
    }

    /// Returns the member whose name is the camel case of that one; nil: there is none, or the two are the same.
    private func camelMember(_ name: String) -> JSONObject.Member? {
        guard name.utf8.contains(UInt8(ascii: "_")) else { return nil }
        return self.members.members.first { Self.isCamelCase($0.name, of: name) }
    }

    private mutating func know(_ name: String) {
        if !self.known.contains(name) { self.known.append(name) }
    }

    private func isKnown(_ name: String) -> Bool {
        self.known.contains(name) || self.known.contains { Self.isCamelCase(name, of: $0) }
    }

    /// Returns the known name that was probably meant: the same but for case and separators, the same in an object within, or one of similar spelling.
    private func suggestion(for name: String) -> String? {
        func letters(_ text: some StringProtocol) -> String { text.lowercased().filter { $0 != "_" && $0 != "-" } }
        let plain = letters(name)
        return self.known.first { letters($0) == plain }
            ?? self.knownWithin.first { letters($0[($0.lastIndex(of: "/") ?? $0.startIndex)...].dropFirst()) == plain }
            ?? closest(to: name, among: self.known)
    }

    /// Returns a name as a step of a JSON pointer in a URI fragment (RFC 6901 §6).
    static func escaped(_ name: String) -> String {
        var step = ""
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "~"): step += "~0"
            case UInt8(ascii: "/"): step += "~1"
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                step.unicodeScalars.append(Unicode.Scalar(byte))
            default: step += "%" + Hexadecimal.encode([byte]).uppercased()
            }
        }
        return step
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
