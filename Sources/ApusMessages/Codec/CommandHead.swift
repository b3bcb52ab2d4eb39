internal import ApusCore
internal import CApusMessages

/// The fields of a send command by which its publisher knows it, as far as its bytes can be read: for the receipt of one that cannot be
/// decoded.
public struct CommandHead: Hashable, Sendable {
    /// The publisher's name of the send; empty: none, or none that can be read.
    public var id = ""
    /// The app; likewise.
    public var app = ""
    /// The idempotency key; likewise.
    public var idempotencyKey = ""
    /// The publisher's own stream of receipts; likewise.
    public var replyTo = ""

    /// The fields of a command.
    public init(_ command: SendCommand) {
        self.id = command.id
        self.app = command.app
        self.idempotencyKey = command.idempotencyKey
        self.replyTo = command.replyTo
    }

    /// Reads the fields one by one up to where the bytes are no message any more. What is too long or no text is left out, and of a
    /// field that is given twice the first counts.
    public init(reading bytes: [UInt8]) {
        let bytes = bytes.span
        let schema = unsafe SendCommand.schema
        var reader = WireReader(0..<bytes.count)
        var fieldsLeft = Limits.messageFieldsMax
        while !reader.isAtEnd, fieldsLeft > 0, let tag = reader.tag(bytes) {
            fieldsLeft -= 1
            guard tag.form == .lengthDelimited else {
                guard reader.skip(tag.form, bytes) else { return }
                continue
            }
            guard let range = reader.range(bytes) else { return }
            func text(_ known: String, bytesMax: Int) -> String {
                guard known.isEmpty, range.count <= bytesMax else { return known }
                return Self.text(bytes.extracting(range)) ?? known
            }
            switch schema.field(number: tag.number)?.name {
            case "id": self.id = text(self.id, bytesMax: Limits.sendIDBytesMax)
            case "app": self.app = text(self.app, bytesMax: Limits.appIDBytesMax)
            case "idempotency_key":
                self.idempotencyKey = text(self.idempotencyKey, bytesMax: Limits.idempotencyKeyBytesMax)
            case "reply_to": self.replyTo = text(self.replyTo, bytesMax: Limits.replyToBytesMax)
            default: break
            }
        }
    }

    private static func text(_ bytes: Span<UInt8>) -> String? {
        for index in bytes.indices where bytes[index] == 0 { return nil }
        guard let text = try? UTF8Span(validating: bytes) else { return nil }
        return String(copying: text)
    }
}
