internal import CApusMessages

/// What one message may hold: protobuf-c's own description of it, which the scan reads so that the two cannot differ.
///
/// Descriptors are constants of the generated code: they live as long as the process.
@safe struct MessageSchema: @unchecked Sendable {
    let descriptor: UnsafePointer<ProtobufCMessageDescriptor>

    init(_ descriptor: UnsafePointer<ProtobufCMessageDescriptor>) {
        unsafe self.descriptor = descriptor
    }

    /// "apus.v1.SendCommand".
    var name: String { unsafe String(cString: self.descriptor.pointee.name) }

    /// The number of fields it has.
    var fieldCount: Int { unsafe Int(self.descriptor.pointee.n_fields) }

    /// The field of that index, in ascending order of numbers.
    func field(at index: Int) -> FieldSchema {
        precondition(index >= 0 && index < self.fieldCount)
        return unsafe FieldSchema(self.descriptor.pointee.fields + index, index: index)
    }

    /// The field of that number; nil when this version has none. A range is a run of consecutive numbers.
    func field(number: UInt32) -> FieldSchema? {
        let count = unsafe Int(self.descriptor.pointee.n_field_ranges)
        for range in 0..<count {
            let start = unsafe self.descriptor.pointee.field_ranges[range]
            let end = unsafe self.descriptor.pointee.field_ranges[range + 1]
            let length = end.orig_index - start.orig_index
            let first = UInt32(bitPattern: start.start_value)
            if number >= first, number - first < length {
                return self.field(at: Int(start.orig_index + number - first))
            }
        }
        return nil
    }

    /// How deep its messages nest; nil when a type holds itself.
    func depth(below ancestors: [String] = []) -> Int? {
        guard !ancestors.contains(self.name) else { return nil }
        var deepest = 0
        for index in 0..<self.fieldCount {
            guard let message = self.field(at: index).message else { continue }
            guard let depth = message.depth(below: ancestors + [self.name]) else { return nil }
            deepest = max(deepest, depth)
        }
        return deepest + 1
    }
}

/// One field of a message.
@safe struct FieldSchema {
    /// How its value stands on the wire.
    enum Form {
        /// A varint of at most 32 bits.
        case narrowVarint
        /// A varint of at most 64 bits.
        case wideVarint
        /// Four bytes.
        case fixed32
        /// Eight bytes.
        case fixed64
        /// Length and UTF-8.
        case text
        /// Length and anything.
        case bytes
        /// Length and a message.
        case message
    }

    /// Place among the fields of its message.
    let index: Int
    private let descriptor: UnsafePointer<ProtobufCFieldDescriptor>

    init(_ descriptor: UnsafePointer<ProtobufCFieldDescriptor>, index: Int) {
        unsafe self.descriptor = descriptor
        self.index = index
    }

    /// As the schema writes it.
    var name: String { unsafe String(cString: self.descriptor.pointee.name) }

    /// True when it may stand more than once.
    var isRepeated: Bool { unsafe self.descriptor.pointee.label == PROTOBUF_C_LABEL_REPEATED }

    /// Which `oneof` of its message it belongs to; nil for none. (The case enum's place tells them apart.)
    var oneof: UInt32? {
        let flags = unsafe self.descriptor.pointee.flags
        guard flags & PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue != 0 else { return nil }
        return unsafe self.descriptor.pointee.quantifier_offset
    }

    /// How its value stands on the wire.
    var form: Form {
        switch unsafe self.descriptor.pointee.type {
        case PROTOBUF_C_TYPE_STRING: .text
        case PROTOBUF_C_TYPE_BYTES: .bytes
        case PROTOBUF_C_TYPE_MESSAGE: .message
        case PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_ENUM, PROTOBUF_C_TYPE_BOOL: .narrowVarint
        case PROTOBUF_C_TYPE_INT64, PROTOBUF_C_TYPE_UINT64: .wideVarint
        case PROTOBUF_C_TYPE_FIXED32, PROTOBUF_C_TYPE_SFIXED32, PROTOBUF_C_TYPE_FLOAT: .fixed32
        case PROTOBUF_C_TYPE_FIXED64, PROTOBUF_C_TYPE_SFIXED64, PROTOBUF_C_TYPE_DOUBLE: .fixed64
        default: preconditionFailure("the schema uses a type that the scan does not know")
        }
    }

    /// What it holds, if it holds messages.
    var message: MessageSchema? {
        guard unsafe self.descriptor.pointee.type == PROTOBUF_C_TYPE_MESSAGE,
            let below = unsafe self.descriptor.pointee.descriptor
        else { return nil }
        return unsafe MessageSchema(below.assumingMemoryBound(to: ProtobufCMessageDescriptor.self))
    }
}

/// What the schema looks like, for whoever holds it to its own rules.
package enum MessageSchemas {
    /// How deep each message that travels by itself nests; nil when one of its types holds itself.
    package static func depths() -> [String: Int?] {
        let schemas = unsafe [
            SendCommand.schema, WorkUnit.schema, OutcomeBatch.schema, SendReceipt.schema, DeviceRecord.schema,
            DeviceRegistration.schema, RegistrationCommand.schema, ClientEvent.schema, DeadLetter.schema,
        ]
        return Dictionary(uniqueKeysWithValues: schemas.map { ($0.name, $0.depth()) })
    }
}
