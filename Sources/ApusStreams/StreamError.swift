/// What went wrong between us and our own functions.
public struct StreamError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// A function answered a word that this version does not know: the library in Redis is of another kind.
    static func unexpected(function: String, answer: String) -> StreamError {
        StreamError(description: "\(function) answered \"\(answer)\": run `apus init` of this version")
    }

    /// Another send came by the same id while this one was on its way: its entry comes back, and is told so.
    static func taken(send: String) -> StreamError {
        StreamError(description: "another send has the id \(send): what is left of this one cannot be kept under it")
    }
}
