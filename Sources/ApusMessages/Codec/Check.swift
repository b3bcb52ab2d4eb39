internal import ApusCore

/// Checks the rules that values obey in both directions, one function each. Fields have the schema's names.
enum Check {
    /// Checks a text that may be empty: it must be short and without NUL, at which C would end it.
    static func text(_ text: String, _ field: StaticString, bytesMax: Int) throws(MessageError) {
        guard !text.isEmpty else { return }
        guard text.utf8.count <= bytesMax else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(bytesMax) bytes")
        }
        guard !text.utf8.contains(0) else {
            throw MessageError(.invalidText, field: "\(field)", "must not hold a NUL")
        }
    }

    /// Checks a text that must not be empty.
    static func requiredText(_ text: String, _ field: StaticString, bytesMax: Int) throws(MessageError) {
        guard !text.isEmpty else { throw Self.missing("\(field)") }
        try Self.text(text, field, bytesMax: bytesMax)
    }

    /// Checks several texts.
    static func texts(_ texts: [String], _ field: StaticString, countMax: Int, bytesMax: Int) throws(MessageError) {
        try Self.count(texts.count, field, max: countMax)
        for (index, text) in texts.enumerated() {
            do throws(MessageError) {
                try Self.text(text, "", bytesMax: bytesMax)
            } catch {
                throw MessageError(error.code, field: "\(field)[\(index)]", error.detail)
            }
        }
    }

    /// Checks several texts, none of which may be empty.
    static func requiredTexts(
        _ texts: [String],
        _ field: StaticString,
        countMax: Int,
        bytesMax: Int,
    ) throws(MessageError) {
        try Self.texts(texts, field, countMax: countMax, bytesMax: bytesMax)
        guard let index = texts.firstIndex(where: \.isEmpty) else { return }
        throw Self.missing("\(field)[\(index)]")
    }

    /// Checks bytes that may be missing: there must be few.
    static func bytes(_ bytes: [UInt8], _ field: StaticString, max: Int) throws(MessageError) {
        guard bytes.count <= max else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(max) bytes")
        }
    }

    /// Checks bytes that are required: there must be few.
    static func requiredBytes(_ bytes: [UInt8], _ field: StaticString, max: Int) throws(MessageError) {
        guard !bytes.isEmpty else { throw Self.missing("\(field)") }
        try Self.bytes(bytes, field, max: max)
    }

    /// Checks bytes that must be missing, or exactly `count`.
    static func bytes(_ bytes: [UInt8], _ field: StaticString, exactly count: Int) throws(MessageError) {
        guard bytes.isEmpty || bytes.count == count else {
            throw MessageError(.malformed, field: "\(field)", "must have \(count) bytes")
        }
    }

    /// Checks a number of elements.
    static func count(_ count: Int, _ field: StaticString, max: Int) throws(MessageError) {
        guard count <= max else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(max) elements")
        }
    }

    /// Checks several messages: their number, and each in order.
    static func parts(_ parts: [some PackedPart], _ field: StaticString, countMax: Int) throws(MessageError) {
        try Self.count(parts.count, field, max: countMax)
        for (index, part) in parts.enumerated() { try within(field, index: index, part.check()) }
    }

    /// Checks a time: between 1970 and the year 9999.
    static func time(_ time: UnixMilliseconds, _ field: StaticString) throws(MessageError) {
        guard time.value >= 0, time <= Limits.timeMax else {
            throw MessageError(.malformed, field: "\(field)", "must be milliseconds between 1970 and the year 9999")
        }
    }

    /// Checks a time of a field where 0 stands for none: a given one must not be 0.
    static func optionalTime(_ time: UnixMilliseconds?, _ field: StaticString) throws(MessageError) {
        guard let time else { return }
        guard time.value != 0 else {
            throw MessageError(.malformed, field: "\(field)", "must be later than 1970, as 0 says that there is none")
        }
        try Self.time(time, field)
    }

    /// Checks nanoseconds since 1970.
    static func nanoseconds(_ nanoseconds: Int64, _ field: StaticString) throws(MessageError) {
        guard nanoseconds >= 0 else {
            throw MessageError(.malformed, field: "\(field)", "must be nanoseconds since 1970")
        }
    }

    /// Checks that a number is finite.
    static func finite(_ number: Double, _ field: StaticString) throws(MessageError) {
        guard number.isFinite else { throw MessageError(.malformed, field: "\(field)", "must be a finite number") }
    }

    /// Returns the error for a missing required field.
    static func missing(_ field: String) -> MessageError { MessageError(.missing, field: field, "must be given") }
}
