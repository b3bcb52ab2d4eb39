/// Names every limit of this target. Each limit has a test that exceeds it by one.
public enum RedisLimits {
    /// The maximum bytes of an incomplete reply. hiredis itself has no such limit.
    public static let unreadBytesMax = 16 * 1_024 * 1_024
    /// The maximum bytes of a line (a status, an error, a number, a length). hiredis rereads an unfinished line at
    /// every call: 64 MiB without a line end took it two minutes.
    public static let lineBytesMax = 64 * 1_024
    /// The maximum number of elements of one array.
    public static let arrayElementsMax = 100_000
    /// The maximum number of elements of all arrays of one reply together.
    public static let replyElementsMax = 1_000_000
    /// The maximum bytes of all texts of one reply together.
    public static let replyBytesMax = 64 * 1_024 * 1_024
    /// The maximum nesting of arrays, which is hiredis' own limit.
    public static let replyDepthMax = 8
    /// The maximum bytes given to hiredis at a time: it moves the bytes behind a reply to the front, once per reply.
    static let feedBytesMax = 64 * 1_024
    /// The maximum bytes of working memory that a parser keeps between replies.
    static let scratchBytesMax = 1_024 * 1_024

    /// The maximum bytes of one encoded command.
    public static let commandBytesMax = 8 * 1_024 * 1_024
    /// The maximum number of commands of one connection that await their replies.
    public static let pendingCommandsMax = 16_384
    /// The maximum bytes of one connection that the socket has not accepted yet; above it commands are refused.
    public static let outboundBytesMax = 16 * 1_024 * 1_024
    /// The maximum number of times that a command is sent on at once because its slot is elsewhere. Then it waits like
    /// any other that is repeated.
    static let redirectionsMax = 5
    /// The maximum number of servers in an address.
    public static let seedsMax = 64
    /// The maximum bytes of a master's name in an address of Sentinels.
    public static let masterNameBytesMax = 128
    /// The longest time that a command waits for others to be sent with.
    static let waitMax = Duration.milliseconds(3)
    /// The maximum number of callers that wait for one connection.
    public static let connectionWaitersMax = 16_384
    /// The maximum bytes of an error's text that are kept.
    public static let errorTextBytesMax = 400
    /// The maximum bytes of a connection's name.
    public static let clientNameBytesMax = 128
    /// The maximum bytes of an assembled function library.
    public static let functionLibraryBytesMax = 1_024 * 1_024
}
