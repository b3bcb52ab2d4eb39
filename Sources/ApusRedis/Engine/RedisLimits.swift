/// Every limit of this target, by name. Each has a test one past it.
public enum RedisLimits {
    /// Bytes of a reply that arrived and cannot be read yet. hiredis itself has no such limit.
    public static let unreadBytesMax = 16 * 1_024 * 1_024
    /// Bytes of a line (a status, an error, a number, a length). hiredis reads an unfinished line again at every call:
    /// 64 MiB without an end cost it two minutes.
    public static let lineBytesMax = 64 * 1_024
    /// Elements of one array.
    public static let arrayElementsMax = 100_000
    /// Elements of all arrays of one reply together.
    public static let replyElementsMax = 1_000_000
    /// Bytes of all texts of one reply together.
    public static let replyBytesMax = 64 * 1_024 * 1_024
    /// Arrays within arrays: hiredis' own limit.
    public static let replyDepthMax = 8
    /// Bytes given to hiredis at a time: it moves what is left behind a reply to the front, once per reply.
    static let feedBytesMax = 64 * 1_024
    /// Bytes of working memory that a parser keeps between replies.
    static let scratchBytesMax = 1_024 * 1_024

    /// Bytes of one encoded command.
    public static let commandBytesMax = 8 * 1_024 * 1_024
    /// Commands of one connection that wait for their answer.
    public static let pendingCommandsMax = 16_384
    /// Bytes of one connection that the socket has not taken yet, above which commands are refused.
    public static let outboundBytesMax = 16 * 1_024 * 1_024
    /// How long a command that may wait for company does so.
    static let waitMax = Duration.milliseconds(3)
    /// Callers that wait for one connection to be made.
    public static let connectionWaitersMax = 16_384
    /// Bytes of an error's text that are kept.
    public static let errorTextBytesMax = 400
    /// Bytes of a connection's name.
    public static let clientNameBytesMax = 128
    /// Bytes of an assembled function library.
    public static let functionLibraryBytesMax = 1_024 * 1_024
}
