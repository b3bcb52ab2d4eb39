/// Writes events of a stream that pages read. It is pure.
///
/// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
enum ServerSentEvent {
    /// A line that is no event: it shows that the stream goes on.
    static let pause = ": still here\n\n"

    /// Returns an event. Its data may have any lines, each of which ends with a carriage return, a line feed or both: a reader gets line feeds.
    static func text(_ name: String, data: String) -> String {
        var text = "event: \(name)\ndata: "
        var isAfterReturn = false
        for scalar in data.unicodeScalars {
            switch scalar {
            case "\n" where isAfterReturn: break
            case "\n", "\r": text += "\ndata: "
            default: text.unicodeScalars.append(scalar)
            }
            isAfterReturn = scalar == "\r"
        }
        return text + "\n\n"
    }
}
