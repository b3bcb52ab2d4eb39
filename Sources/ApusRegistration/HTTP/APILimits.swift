/// Limits of the HTTP API, by name.
enum APILimits {
    /// Bytes of a request's body. The largest registration is some 4 KiB of token, 64 tags and 100 topics of ordinary length.
    static let bodyBytesMax = 16 * 1_024
    /// Bytes of a body that are read and thrown away for the sake of an answer; beyond it the connection is closed.
    static let discardedBytesMax = 256 * 1_024
    /// Bytes of one header field: a token of 16 KiB, and some.
    static let headerFieldBytesMax = 20 * 1_024
    /// Bytes of all header fields.
    static let headerBytesMax = 32 * 1_024
    /// Header fields.
    static let headerFieldsMax = 64
    /// Times that a change is decided anew because the device changed owners in between.
    static let attemptsMax = 4
}
