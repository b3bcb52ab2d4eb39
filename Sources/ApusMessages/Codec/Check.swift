internal import ApusCore

/// The rules that values keep in both directions, one function each. Fields are named as the schema names them.
enum Check {
    /// A text may be empty, and must be short and without NUL, at which C would end it.
    static func text(_ text: String, _ field: StaticString, bytesMax: Int) throws(MessageError) {
        guard text.utf8.count <= bytesMax else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(bytesMax) bytes")
        }
        guard !text.utf8.contains(0) else {
            throw MessageError(.invalidText, field: "\(field)", "must not hold a NUL")
        }
    }

    /// A text that must not be empty.
    static func requiredText(_ text: String, _ field: StaticString, bytesMax: Int) throws(MessageError) {
        guard !text.isEmpty else { throw Self.missing("\(field)") }
        try Self.text(text, field, bytesMax: bytesMax)
    }

    /// Several texts.
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

    /// Several texts, none of them empty.
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

    /// Bytes may be missing, and must be few.
    static func bytes(_ bytes: [UInt8], _ field: StaticString, max: Int) throws(MessageError) {
        guard bytes.count <= max else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(max) bytes")
        }
    }

    /// Bytes must be there, and few.
    static func requiredBytes(_ bytes: [UInt8], _ field: StaticString, max: Int) throws(MessageError) {
        guard !bytes.isEmpty else { throw Self.missing("\(field)") }
        try Self.bytes(bytes, field, max: max)
    }

    /// Bytes must be missing, or exactly that many.
    static func bytes(_ bytes: [UInt8], _ field: StaticString, exactly count: Int) throws(MessageError) {
        guard bytes.isEmpty || bytes.count == count else {
            throw MessageError(.malformed, field: "\(field)", "must have \(count) bytes")
        }
    }

    /// There must not be more of them.
    static func count(_ count: Int, _ field: StaticString, max: Int) throws(MessageError) {
        guard count <= max else {
            throw MessageError(.limitExceeded, field: "\(field)", "must have at most \(max) elements")
        }
    }

    /// Several messages: not too many, and each in order.
    static func parts(_ parts: [some PackedPart], _ field: StaticString, countMax: Int) throws(MessageError) {
        try Self.count(parts.count, field, max: countMax)
        for (index, part) in parts.enumerated() { try within(field, index: index, part.check()) }
    }

    /// A time between 1970 and the year 9999.
    static func time(_ time: UnixMilliseconds, _ field: StaticString) throws(MessageError) {
        guard time.value >= 0, time <= Limits.timeMax else {
            throw MessageError(.malformed, field: "\(field)", "must be milliseconds between 1970 and the year 9999")
        }
    }

    /// A time on a field where 0 stands for none: one that is there must not be 0.
    static func optionalTime(_ time: UnixMilliseconds?, _ field: StaticString) throws(MessageError) {
        guard let time else { return }
        guard time.value != 0 else {
            throw MessageError(.malformed, field: "\(field)", "must be later than 1970, as 0 says that there is none")
        }
        try Self.time(time, field)
    }

    /// Nanoseconds since 1970.
    static func nanoseconds(_ nanoseconds: Int64, _ field: StaticString) throws(MessageError) {
        guard nanoseconds >= 0 else {
            throw MessageError(.malformed, field: "\(field)", "must be nanoseconds since 1970")
        }
    }

    /// A number that orders and compares.
    static func finite(_ number: Double, _ field: StaticString) throws(MessageError) {
        guard number.isFinite else { throw MessageError(.malformed, field: "\(field)", "must be a finite number") }
    }

    /// Says that something required is not there.
    static func missing(_ field: String) -> MessageError { MessageError(.missing, field: field, "must be given") }
}
