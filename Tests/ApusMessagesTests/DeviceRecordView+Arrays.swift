import ApusCore
import ApusMessages

/// The view over arrays, since `#expect` cannot take a span apart.
extension DeviceRecordView {
    init?(_ bytes: [UInt8]) { self.init(bytes.span) }

    init?(_ bytes: [UInt8], _ range: Range<Int>) { self.init(bytes.span, range) }

    func device(in bytes: [UInt8]) -> String { self.device(in: bytes.span) }

    func hasTopic(_ number: UInt32, in bytes: [UInt8]) -> Bool { self.hasTopic(number, in: bytes.span) }

    func hasTag(_ tag: String, in bytes: [UInt8]) -> Bool {
        let text = Array(tag.utf8)
        return self.hasTag(text.span, in: bytes.span)
    }

    func isUser(_ user: String, in bytes: [UInt8]) -> Bool {
        let text = Array(user.utf8)
        return Self.isEqual(self.user, text.span, in: bytes.span)
    }

    func secondaryAddress(of kind: TokenKind, in bytes: [UInt8]) -> SecondaryAddress? {
        self.secondaryAddress(in: bytes.span) { $0.kind == kind }
    }
}
