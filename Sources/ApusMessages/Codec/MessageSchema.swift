internal import CApusMessages

/// Describes the fields of a message by protobuf-c's own descriptor, which the scan reads so that the two cannot differ.
///
/// Descriptors are constants of the generated code: they live as long as the process.
@safe struct MessageSchema: @unchecked Sendable {
    let descriptor: UnsafePointer<ProtobufCMessageDescriptor>

    init(_ descriptor: UnsafePointer<ProtobufCMessageDescriptor>) {
        unsafe self.descriptor = descriptor
    }

    /// The name, such as "apus.v1.SendCommand".
    var name: String { unsafe String(cString: self.descriptor.pointee.name) }

    /// The number of the message's fields.
    var fieldCount: Int { unsafe Int(self.descriptor.pointee.n_fields) }

    /// Returns the field of an index, in ascending order of numbers.
    func field(at index: Int) -> FieldSchema {
        precondition(index >= 0 && index < self.fieldCount)
        return unsafe FieldSchema(self.descriptor.pointee.fields + index, index: index)
    }

    /// Returns the field of a number; nil when this version has none. A range is a run of consecutive numbers.
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

    /// Returns the maximum nesting of the messages in it; nil when a type contains itself.
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

/// Describes one field of a message.
@safe struct FieldSchema {
    /// The wire forms of a value.
    enum Form {
        /// A varint of at most 32 bits.
        case narrowVarint
        /// A varint of at most 64 bits.
        case wideVarint
        /// Four bytes.
        case fixed32
        /// Eight bytes.
        case fixed64
        /// A length and UTF-8.
        case text
        /// A length and any bytes.
        case bytes
        /// A length and a message.
        case message
    }

    /// The index among the fields of its message.
    let index: Int
    private let descriptor: UnsafePointer<ProtobufCFieldDescriptor>

    init(_ descriptor: UnsafePointer<ProtobufCFieldDescriptor>, index: Int) {
        unsafe self.descriptor = descriptor
        self.index = index
    }

    /// The name in the schema.
    var name: String { unsafe String(cString: self.descriptor.pointee.name) }

    /// True when the field is repeated.
    var isRepeated: Bool { unsafe self.descriptor.pointee.label == PROTOBUF_C_LABEL_REPEATED }

    /// The `oneof` of its message that the field belongs to; nil for none. (The offset of the case enum identifies it.)
    var oneof: UInt32? {
        let flags = unsafe self.descriptor.pointee.flags
        guard flags & PROTOBUF_C_FIELD_FLAG_ONEOF.rawValue != 0 else { return nil }
        return unsafe self.descriptor.pointee.quantifier_offset
    }

    /// The wire form of the value.
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

    /// The schema of the field's messages; nil for other types.
    var message: MessageSchema? {
        guard unsafe self.descriptor.pointee.type == PROTOBUF_C_TYPE_MESSAGE,
            let below = unsafe self.descriptor.pointee.descriptor
        else { return nil }
        return unsafe MessageSchema(below.assumingMemoryBound(to: ProtobufCMessageDescriptor.self))
    }
}

/// Exposes properties of the schema to tests of its rules.
package enum MessageSchemas {
    /// Returns the maximum nesting of each top-level message; nil when one of its types contains itself.
    package static func depths() -> [String: Int?] {
        let schemas = unsafe [
            SendCommand.schema, WorkUnit.schema, OutcomeBatch.schema, SendReceipt.schema, DeviceRecord.schema,
            DeviceRegistration.schema, RegistrationCommand.schema, ClientEvent.schema, DeadLetter.schema,
        ]
        return Dictionary(uniqueKeysWithValues: schemas.map { ($0.name, $0.depth()) })
    }
}
