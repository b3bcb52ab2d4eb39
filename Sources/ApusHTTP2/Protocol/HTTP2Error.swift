/// Reports a request that is refused before anything is sent. A peer's faults end the connection with an ``HTTP2CloseReason`` instead.
package struct HTTP2Error: Error, Equatable, CustomStringConvertible {
    /// The kind of refusal.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case invalidHeaderName
            case invalidHeaderValue
            case duplicateHeader
            case tooManyHeaders
            case invalidAuthority
            case invalidPath
            case invalidMethod
            case bodyTooLarge
            case outOfMemory
        }

        private let kind: Kind

        private init(_ kind: Kind) { self.kind = kind }

        /// The name is not a lower-case token of RFC 9110, or HTTP/2 or this target reserves it.
        package static let invalidHeaderName = Code(.invalidHeaderName)
        /// The value has control characters, bytes beyond ASCII, white space at an end, or is too long.
        package static let invalidHeaderValue = Code(.invalidHeaderValue)
        /// A name is repeated; a provider may answer that with `DuplicateHeaders`
        /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
        package static let duplicateHeader = Code(.duplicateHeader)
        /// There are more than ``HTTP2Limits/headersMax``.
        package static let tooManyHeaders = Code(.tooManyHeaders)
        /// The authority is not a host, with or without port.
        package static let invalidAuthority = Code(.invalidAuthority)
        /// The path is not an absolute path of visible ASCII.
        package static let invalidPath = Code(.invalidPath)
        /// The method is not of upper-case letters.
        package static let invalidMethod = Code(.invalidMethod)
        /// The body exceeds ``HTTP2Limits/requestBodyBytesMax``.
        package static let bodyTooLarge = Code(.bodyTooLarge)
        /// The library could not allocate memory.
        package static let outOfMemory = Code(.outOfMemory)

        /// The name.
        package var description: String { self.kind.rawValue }
    }

    /// The kind.
    package let code: Code
    /// The details, without repeating bytes that may be hostile or secret.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Kind and message.
    package var description: String { "\(self.code): \(self.message)" }
}
