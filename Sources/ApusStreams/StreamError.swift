/// What went wrong between us and our own functions.
public struct StreamError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// A function answered a word that this version does not know: the library in Redis is of another kind.
    static func unexpected(function: String, answer: String) -> StreamError {
        StreamError(description: "\(function) answered \"\(answer)\": run `apus init` of this version")
    }
}
