/// An answer, lent: header values and body can be asked for at the session until its next event is taken.
package struct HTTP2Answer: Sendable {
    /// What the request was submitted with.
    package let tag: UInt64
    /// 200...599.
    package let status: Int
    /// Bytes of the body that were kept.
    package let bodyCount: Int
    /// Whether the body was longer than what is kept.
    package let isBodyTruncated: Bool

    /// Which of the session's slots holds it.
    package let slot: Int32
    let serial: UInt32
}

/// The header values that are kept of an answer; the first of each name, and only while they fit into
/// ``HTTP2Limits/answerFieldBytesMax``.
package enum HTTP2AnswerField: UInt8, CaseIterable, Sendable {
    /// The request's id, or one that the provider made.
    case apnsID
    /// The provider's own id.
    case apnsUniqueID
    /// Channel management.
    case apnsRequestID
    /// Channel management: the new channel.
    case apnsChannelID
    /// Seconds, or a date.
    case retryAfter
    /// Of the body.
    case contentType
    /// Web Push: the message resource.
    case location

    /// The header's name.
    package var name: StaticString {
        switch self {
        case .apnsID: "apns-id"
        case .apnsUniqueID: "apns-unique-id"
        case .apnsRequestID: "apns-request-id"
        case .apnsChannelID: "apns-channel-id"
        case .retryAfter: "retry-after"
        case .contentType: "content-type"
        case .location: "location"
        }
    }

    /// The field of that name.
    init?(name: UnsafeBufferPointer<UInt8>) {
        let candidate: HTTP2AnswerField
        switch name.count {
        case 7: candidate = .apnsID
        case 8: candidate = .location
        case 11: candidate = .retryAfter
        case 12: candidate = .contentType
        case 14: candidate = .apnsUniqueID
        case 15: candidate = unsafe name[5] == 0x72 ? .apnsRequestID : .apnsChannelID
        default: return nil
        }
        let expected = candidate.name
        for index in 0..<name.count where unsafe name[index] != expected.utf8Start[index] { return nil }
        self = candidate
    }
}
