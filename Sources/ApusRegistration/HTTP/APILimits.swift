internal import ApusCore

/// Names the limits of the HTTP API.
enum APILimits {
    /// The time for which anybody may keep the key that browsers subscribe with.
    static let publicKeySeconds = 300
    /// The bytes of a request's body. The largest registration is some 4 KiB of token, 64 tags and 100 topics of ordinary length.
    static let bodyBytesMax = 16 * 1_024
    /// The bytes of a send's body: a command of the largest size as JSON, with room for escapes.
    static let sendBytesMax = 320 * 1_024
    /// The bytes of a Matrix homeserver's notification: an event of 64 KiB, and names of the room and of the sender, which stand in events as
    /// large.
    ///
    /// Source: https://spec.matrix.org/latest/client-server-api/#size-limits
    static let matrixBytesMax = 256 * 1_024
    /// The bytes of a body in gorush's form: a hundred notifications to hundreds of tokens each.
    static let gorushBytesMax = 4 * 1_048_576
    /// The bytes of a body that are read and discarded in order to answer; beyond it the connection is closed.
    static let discardedBytesMax = 512 * 1_024
    /// The times that a body is in memory while it is read: as it arrives, and as it is parsed.
    static let bodyCopies = 2
    /// The bytes of a line of an import: those of the largest device that an export has. It names the topics, which the record has as numbers, and
    /// may escape each byte of the record as six; all names of members have less than 4 KiB.
    static let importLineBytesMax = 144 * 1_024
    /// Bytes that an import counts as beside its lines and answers: what was read of it and is not parsed yet, and its tasks.
    static let importBytes = 256 * 1_024 + importLineBytesMax
    /// Bytes of an import's lines that are read and wait to be stored; a line counts as `importLineBytesMin` at least. They are stored
    /// together, some 4,000 at once.
    static let importLinesBytesMax = 10 * 1_024 * 1_024
    /// Bytes that a line of an import counts as, at least: what its registration, or what is wrong with it, takes beside the text.
    static let importLineBytesMin = 2_560
    /// The lines of an import that are split and parsed together. A few bytes may be a line, so one read may have tens of thousands, whose
    /// registrations take far more memory than it.
    static let importLinesAtOnce = 64
    /// Bytes of an import's answers that wait for a client which sends and does not read: those of a million lines, where its app's share of
    /// the memory has room for as many. Beyond it no more is read from the client.
    static let importAnswersBytesMax = 64 * 1_024 * 1_024
    /// Bytes of answers that the system keeps for a client which does not read; it takes twice as much memory for them (socket(7)). Without
    /// a limit they may grow to megabytes a connection.
    static let sendBufferBytes = 128 * 1_024
    /// The seconds after which whoever found no room in memory may ask again.
    static let memoryRetrySeconds = 2
    /// The seconds after which a send of an app that no dispatcher has had may be published again.
    static let appRetrySeconds = 5
    /// The maximum time that an import may stand still.
    static let importPause = Duration.seconds(60)
    /// The sends in one page of a list, unless the caller asks for another number up to `StreamLimits.sendsPerPageMax`.
    static let sendsPerPage = 50
    /// The time that a request for a dry run waits for its result.
    static let dryRunWait = Duration.seconds(5)
    /// The events in one report.
    static let eventsMax = 100
    /// The time between two requests of one user to be forgotten: each reads all dead letters of the installation.
    static let userRemovalInterval = Duration.seconds(10)
    /// The requests of one user to be forgotten that may come at once.
    static let userRemovalsAtOnce = 3
    /// The dead letters that are read at once for a user who is forgotten.
    static let userRemovalLetters = 4
    /// The bytes that count as held while a user is forgotten: these letters, as they arrive and as they are read.
    static let userRemovalBytes = userRemovalLetters * Limits.deadLetterBytesMax * bodyCopies
    /// The age up to which events count; older ones concern sends that are not counted any more, and are ignored.
    static let eventAge = Duration.seconds(7 * 24 * 3_600)
    /// The bytes of one header field: a token of 16 KiB, and some.
    static let headerFieldBytesMax = 20 * 1_024
    /// The bytes of all header fields.
    static let headerBytesMax = 32 * 1_024
    /// The number of header fields.
    static let headerFieldsMax = 64
    /// The push keys without a device in a second that are looked up for one app that has no rate; each takes a few calls of Redis.
    static let unknownPushKeysPerSecond = 500
    /// The attempts at a change while the device changes owners in between.
    static let attemptsMax = 4

    /// The maximum of bytes that the body of one request of a Matrix homeserver holds.
    static let matrixHeldBytesMax = matrixBytesMax * bodyCopies

    /// Returns the maximum of bytes of an operation's body; 0 when it has none, or reads it as a stream.
    static func operationBytesMax(_ route: HTTPRoute, _ verb: HTTPVerb) -> Int {
        switch (route, verb) {
        case (.device, .put), (.device, .patch), (.topics, .put), (.topics, .post), (.activity, .put), (.test, .post),
            (.events, .post), (.send, .patch):
            self.bodyBytesMax
        case (.sends, .post): self.sendBytesMax
        case (.matrix, .post): self.matrixBytesMax
        case (.gorush, .post): self.gorushBytesMax
        default: 0
        }
    }
}
