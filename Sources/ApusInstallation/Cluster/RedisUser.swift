/// Lists the users of Redis that the parts of Apus log in as, each with the least rights that it needs.
///
/// A function runs with its caller's rights, so a user is given each command that its functions execute. No user may run scripts,
/// load functions, read or change Redis' configuration, or touch keys that are not Apus'.
///
/// Source: https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
package enum RedisUser: String, CaseIterable, Hashable, Sendable {
    /// The service that keeps devices.
    case registration
    /// The service that sends.
    case dispatcher
    /// The service that evaluates outcomes.
    case feedback
    /// The command `apus`, but for `init`, `acl set` and `cluster plan --apply`, which need an administrator.
    case `operator`
    /// A backend that publishes through Apus' functions for any app, and reads receipts.
    case publisher
    /// A backend that publishes for its own apps alone, into mailboxes of its own, and reads its receipts: the configuration's `publishers`.
    case appPublisher = "app-publisher"

    /// The usual name of the user in Redis.
    package var defaultName: String { "apus-\(self.rawValue)" }

    /// Returns the rules, without the password and without `on`, in the order in which Redis takes them.
    ///
    /// - Parameter name: the user's name; a publisher may read the receipt streams of that name, and an app publisher has its mailboxes.
    package func rules(named name: String) -> [String] {
        self.keys(name) + ["resetchannels", "-@all"] + self.commands.map { "+\($0)" } + self.selectors(name)
    }

    /// Returns the user as a line of Redis' ACL file.
    ///
    /// - Parameter password: the password as a rule: `>` and the text, or `#` and its SHA-256 in hexadecimal.
    package func line(named name: String, password: String) -> String {
        (["user", name, "on", password] + self.rules(named: name)).joined(separator: " ")
    }

    // MARK: Keys

    /// The patterns of the keys. Those of the most frequent keys come first: Redis tries them in this order.
    private func keys(_ name: String) -> [String] {
        switch self {
        case .registration:
            [
                "~{t*}*", "~{q*}in:express", "~{q*}in:bulk", "~{q*}idem*", "~{q*}mailbox_rates", "~{q*}register",
                "~{q*}events",
                "~{q*}receipts", "~{q*}dead", "~{q*}claims", "%R~{q*}*", "%R~apus:meta", "%R~apus:routes",
                "~apus:services", "~apus:audit", "~apus:{audit:keys}*", "%R~apus:keys:*", "~apus:receipts:*",
                // A backend may pause, resume and cancel its app's sends, which moves what they have waiting.
                "~{q*}send:*", "~{q*}held*", "~{q*}due", "~{q*}due:messages", "~{q*}plan:*", "~{q*}work:*",
                "~{q*}journal",
            ]
        case .dispatcher:
            [
                "~{q*}*", "%R~{t*}*", "~{t*}*:badge:*", "%R~apus:meta", "~apus:routes", "~apus:services", "~apus:jwt:*",
                "~apus:receipts:*", "~apus:publishers",
            ]
        case .feedback:
            ["~{q*}*", "~{t*}*", "%R~apus:meta", "%R~apus:routes", "~apus:services", "~apus:receipts:*"]
        case .operator:
            ["~{q*}*", "~{t*}*", "~apus:*"]
        case .publisher:
            [
                "~{q*}in:express", "~{q*}in:bulk", "~{q*}idem*", "~{q*}mailbox_rates", "%R~{q*}send:*", "%R~{q*}~",
                "%R~{q*}receipts",
                "%R~apus:meta", "%R~apus:routes", "%R~apus:receipts:\(name)", "%R~apus:receipts:\(name):*",
            ]
        case .appPublisher:
            [
                "~{q*}in:express:\(name)", "~{q*}in:bulk:\(name)", "%R~{q*}~",
                "%R~apus:meta", "%R~apus:receipts:\(name)", "%R~apus:receipts:\(name):*",
            ]
        }
    }

    // MARK: Commands

    private var commands: [String] {
        switch self {
        case .registration, .dispatcher, .feedback: Self.connection + Self.data + ["wait"]
        case .operator: Self.connection + Self.data + ["scan", "wait"]
        case .publisher:
            Self.ownConnection
                + [
                    "time", "exists", "hget", "hgetall", "hmget", "hset", "hdel", "hkeys", "pexpire", "xadd", "xlen",
                    "xinfo|stream", "xread", "xrange", "xrevrange", "wait",
                ]
        case .appPublisher:
            Self.ownConnection
                + [
                    "time", "exists", "hgetall", "hmget", "xadd", "xlen", "xinfo|stream", "xread", "xrange",
                    "xrevrange", "wait",
                ]
        }
    }

    /// Returns further rights, each a rule in parentheses: commands that hold for some of the keys only.
    private func selectors(_ name: String) -> [String] {
        switch self {
        case .registration, .dispatcher, .feedback, .operator, .publisher: []
        // It may not make a mailbox a hash, which nobody could read.
        case .appPublisher: ["(~{q*}mailbox_rates:\(name) +hmget +hset +hdel)"]
        }
    }

    /// The commands that open a connection, find the server of a slot, and call functions.
    private static let ownConnection = [
        "ping", "auth", "client|setname", "client|id", "info", "role", "cluster|nodes", "cluster|slots", "fcall",
        "fcall_ro",
    ]

    /// The same with the command that ends a blocking read sooner. It takes the connections of others, too.
    private static let connection = Self.ownConnection + ["client|unblock"]

    /// The commands that functions and services execute on data.
    private static let data = [
        "bitcount", "del", "exists", "get", "hdel", "hexists", "hget", "hgetall", "hincrby", "hkeys", "hlen",
        "hmget", "hrandfield", "hscan", "hset", "hsetnx", "hvals", "incr", "lindex", "llen", "lpop", "lpos",
        "lrange", "ltrim", "memory|usage", "mget", "persist", "pexpire", "pttl", "rename", "rpush", "sadd", "scard",
        "set", "setbit", "sismember", "smembers", "spop", "srem", "sscan", "strlen", "time", "xack", "xadd",
        "xautoclaim", "xclaim", "xdel", "xgroup|create", "xgroup|delconsumer", "xgroup|setid", "xinfo|consumers",
        "xinfo|groups", "xinfo|stream", "xlen", "xpending", "xrange", "xread", "xreadgroup", "xrevrange", "xtrim",
        "zadd", "zcard", "zcount", "zpopmin", "zrange", "zrangebyscore", "zrem", "zremrangebyrank",
        "zremrangebyscore", "zrevrangebyscore", "zscan", "zscore",
    ]
}
