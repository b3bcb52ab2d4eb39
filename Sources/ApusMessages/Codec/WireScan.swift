internal import ApusCore

/// Checks a packed message from front to back before protobuf-c reads it, and refuses what that would fail on or let pass.
///
/// protobuf-c keeps 32 bytes for each field and copies unknown ones without any limit, accepts any bytes as text and
/// ends it at the first NUL. The scan allocates nothing, whatever it reads: it follows the descriptors, so it recurses
/// exactly as deep as the schema.
struct WireScan {
    private var fieldsLeft = Limits.messageFieldsMax
    private var unknownFieldsLeft = Limits.messageUnknownFieldsMax

    init() {}

    /// Scans `range` of the bytes as a message of that schema.
    mutating func scan(
        _ bytes: Span<UInt8>,
        _ range: Range<Int>,
        as schema: MessageSchema,
        depth: Int = 1,
    ) throws(MessageError) {
        precondition(
            depth <= Limits.messageDepthMax && schema.fieldCount <= 64,
            "the schema exceeds the limits of the scan"
        )
        var reader = WireReader(range)
        var seen: UInt64 = 0
        while !reader.isAtEnd {
            let start = reader.position
            guard let tag = reader.tag(bytes) else { throw Self.broken }
            self.fieldsLeft -= 1
            guard self.fieldsLeft >= 0 else {
                throw MessageError(.limitExceeded, "must have at most \(Limits.messageFieldsMax) fields in all")
            }
            guard let field = schema.field(number: tag.number) else {
                self.unknownFieldsLeft -= 1
                guard self.unknownFieldsLeft >= 0 else {
                    throw MessageError(
                        .limitExceeded,
                        "must have at most \(Limits.messageUnknownFieldsMax) fields of later versions",
                    )
                }
                guard reader.skip(tag.form, bytes) else { throw Self.broken }
                continue
            }
            do throws(MessageError) {
                try Self.checkFirst(field, seen: seen, of: schema)
                seen |= 1 << UInt64(field.index)
                try self.scan(field, tag.form, bytes, &reader, depth: depth)
            } catch {
                // Only now is the index of a repeated field worth computing.
                let index = field.isRepeated ? Self.occurrences(of: tag.number, bytes, range.lowerBound..<start) : nil
                throw error.inside(field.name, index: index)
            }
        }
    }

    private mutating func scan(
        _ field: FieldSchema,
        _ wire: WireReader.Form,
        _ bytes: Span<UInt8>,
        _ reader: inout WireReader,
        depth: Int,
    ) throws(MessageError) {
        let form = field.form
        if wire == .lengthDelimited {
            guard let range = reader.range(bytes) else { throw Self.broken }
            switch form {
            case .bytes: return
            case .text: try Self.checkText(bytes.extracting(range))
            case .message:
                guard let schema = field.message else { preconditionFailure("a message field without a schema") }
                try self.scan(bytes, range, as: schema, depth: depth + 1)
            case .narrowVarint, .wideVarint, .fixed32, .fixed64:
                guard field.isRepeated else { throw Self.otherType }
                var run = WireReader(range)
                while !run.isAtEnd { try Self.scanNumber(form, bytes, &run) }
            }
            return
        }
        switch (form, wire) {
        case (.narrowVarint, .varint), (.wideVarint, .varint), (.fixed32, .fixed32), (.fixed64, .fixed64):
            try Self.scanNumber(form, bytes, &reader)
        default: throw Self.otherType
        }
    }

    private static func scanNumber(
        _ form: FieldSchema.Form,
        _ bytes: Span<UInt8>,
        _ reader: inout WireReader,
    ) throws(MessageError) {
        switch form {
        case .narrowVarint:
            guard let value = reader.varint(bytes) else { throw Self.broken }
            guard value <= UInt32.max else { throw MessageError(.malformed, "must fit 32 bits") }
        case .wideVarint: guard reader.varint(bytes) != nil else { throw Self.broken }
        case .fixed32: guard reader.skip(.fixed32, bytes) else { throw Self.broken }
        case .fixed64: guard reader.skip(.fixed64, bytes) else { throw Self.broken }
        case .text, .bytes, .message: throw Self.otherType
        }
    }

    /// Checks that a singular field is not repeated, nor accompanied by another of its `oneof`.
    private static func checkFirst(
        _ field: FieldSchema,
        seen: UInt64,
        of schema: MessageSchema,
    ) throws(MessageError) {
        guard !field.isRepeated, seen != 0 else { return }
        guard seen & 1 << UInt64(field.index) == 0 else { throw MessageError(.malformed, "must not be given twice") }
        guard let oneof = field.oneof else { return }
        for index in 0..<schema.fieldCount where seen & 1 << UInt64(index) != 0 {
            guard schema.field(at: index).oneof != oneof else {
                throw MessageError(.malformed, "must not be given beside \(schema.field(at: index).name)")
            }
        }
    }

    private static func checkText(_ text: Span<UInt8>) throws(MessageError) {
        for index in text.indices where text[index] == 0 {
            throw MessageError(.invalidText, "must not hold a NUL")
        }
        do {
            _ = try UTF8Span(validating: text)
        } catch {
            throw MessageError(.invalidText, "must be UTF-8")
        }
    }

    private static func occurrences(of number: UInt32, _ bytes: Span<UInt8>, _ range: Range<Int>) -> Int {
        var reader = WireReader(range)
        var count = 0
        while !reader.isAtEnd, let tag = reader.tag(bytes), reader.skip(tag.form, bytes) {
            if tag.number == number { count += 1 }
        }
        return count
    }

    private static let broken = MessageError(
        .malformed,
        "must be complete protobuf with numbers and lengths in range"
    )
    private static let otherType = MessageError(.malformed, "must have the wire type of the schema")
}
