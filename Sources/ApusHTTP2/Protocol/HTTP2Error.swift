/// An error of a request that is refused before anything is sent. What a peer does wrong ends the connection with an
/// ``HTTP2CloseReason`` instead.
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

        /// Not a lower-case token of RFC 9110, or a name that HTTP/2 or this target keeps for itself.
        package static let invalidHeaderName = Code(.invalidHeaderName)
        /// Control characters, bytes beyond ASCII, white space at an end, or too long.
        package static let invalidHeaderValue = Code(.invalidHeaderValue)
        /// The same name twice; a provider may answer that with `DuplicateHeaders`
        /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
        package static let duplicateHeader = Code(.duplicateHeader)
        /// More than ``HTTP2Limits/headersMax``.
        package static let tooManyHeaders = Code(.tooManyHeaders)
        /// Not a host, with or without port.
        package static let invalidAuthority = Code(.invalidAuthority)
        /// Not an absolute path of visible ASCII.
        package static let invalidPath = Code(.invalidPath)
        /// Not upper-case letters.
        package static let invalidMethod = Code(.invalidMethod)
        /// More than ``HTTP2Limits/requestBodyBytesMax``.
        package static let bodyTooLarge = Code(.bodyTooLarge)
        /// The library could not allocate.
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
