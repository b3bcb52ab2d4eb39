/// Limits of the HTTP API, by name.
enum APILimits {
    /// Bytes of a request's body. The largest registration is some 4 KiB of token, 64 tags and 100 topics of ordinary length.
    static let bodyBytesMax = 16 * 1_024
    /// Bytes of a send's body: a command of the largest size as JSON, with room for escapes.
    static let sendBytesMax = 320 * 1_024
    /// Bytes of a body that are read and thrown away for the sake of an answer; beyond it the connection is closed.
    static let discardedBytesMax = 512 * 1_024
    /// Bytes of an import's lines that are read and wait to be stored; a line counts as `importLineBytesMin` at least. They are stored
    /// together, some 4,000 at once.
    static let importLinesBytesMax = 1_024 * 1_024
    /// Bytes that a line of an import counts as, at least: what its registration takes beside the text.
    static let importLineBytesMin = 256
    /// Bytes of an import's answers that wait for a client which sends and does not read: those of a million lines. Beyond it no more is read
    /// from the client.
    static let importAnswersBytesMax = 64 * 1_024 * 1_024
    /// How long an import may stand still.
    static let importPause = Duration.seconds(60)
    /// Events in one report.
    static let eventsMax = 100
    /// How old an event may be; older ones say nothing about a send that is still counted.
    static let eventAge = Duration.seconds(7 * 24 * 3_600)
    /// Bytes of one header field: a token of 16 KiB, and some.
    static let headerFieldBytesMax = 20 * 1_024
    /// Bytes of all header fields.
    static let headerBytesMax = 32 * 1_024
    /// Header fields.
    static let headerFieldsMax = 64
    /// Times that a change is decided anew because the device changed owners in between.
    static let attemptsMax = 4
}
