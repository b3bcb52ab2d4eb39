/// An answer, lent: its header values and body can be read from the session until the next event is taken.
package struct HTTP2Answer: Sendable {
    /// The tag that the request was submitted with.
    package let tag: UInt64
    /// The status, 200...599.
    package let status: Int
    /// The number of bytes of the body that were kept.
    package let bodyCount: Int
    /// True when the body was longer than the kept part.
    package let isBodyTruncated: Bool

    /// The session's slot that holds the answer.
    package let slot: Int32
    let serial: UInt32
}

/// The header values of an answer that are kept: the first of each name, and only while they fit into ``HTTP2Limits/answerFieldBytesMax``.
package enum HTTP2AnswerField: UInt8, CaseIterable, Sendable {
    /// The request's id, or one that the provider created.
    case apnsID
    /// The provider's own id.
    case apnsUniqueID
    /// The request id of channel management.
    case apnsRequestID
    /// The id of the new channel in channel management.
    case apnsChannelID
    /// The wait in seconds, or a date.
    case retryAfter
    /// The media type of the body.
    case contentType
    /// The address of the stored message (RFC 8030 §5).
    case location
    /// The reason of one push service for a refusal.
    case wnsErrorDescription
    /// The word of the same push service for what became of a notification.
    case wnsNotificationStatus
    /// The older name of that header.
    case wnsStatus

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
        case .wnsErrorDescription: "x-wns-error-description"
        case .wnsNotificationStatus: "x-wns-notificationstatus"
        case .wnsStatus: "x-wns-status"
        }
    }

    /// Returns the field of a header's name; nil for other names.
    init?(name: UnsafeBufferPointer<UInt8>) {
        let candidate: HTTP2AnswerField
        switch name.count {
        case 7: candidate = .apnsID
        case 8: candidate = .location
        case 11: candidate = .retryAfter
        case 12: candidate = unsafe name[0] == 0x78 ? .wnsStatus : .contentType
        case 14: candidate = .apnsUniqueID
        case 23: candidate = .wnsErrorDescription
        case 24: candidate = .wnsNotificationStatus
        case 15: candidate = unsafe name[5] == 0x72 ? .apnsRequestID : .apnsChannelID
        default: return nil
        }
        let expected = candidate.name
        for index in 0..<name.count where unsafe name[index] != expected.utf8Start[index] { return nil }
        self = candidate
    }
}
