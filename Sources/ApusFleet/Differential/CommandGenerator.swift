internal import ApusCore

/// Draws commands of Redis, most of them sensible, over few keys, fields and ids, so that they meet each other.
package struct CommandGenerator {
    private var generator: SeededGenerator

    /// Creates a generator from a seed.
    package init(seed: UInt64) { self.generator = SeededGenerator(seed: seed) }

    private static let fields = ["a", "b", "c", "1", "2", ""]
    private static let groups = ["g1", "g2"]
    private static let consumers = ["c1", "c2", "c3"]
    private static let numbers = ["0", "1", "2", "-1", "5", "17", "100", "-3"]
    private static let scores = ["0", "1", "2.5", "-1", "1e20", "inf", "-inf", "3", "0.1", "1700000000000"]

    /// Returns the next command and the step of the clock before it, in µs.
    package mutating func next() -> (command: [Bytes], step: Int64) {
        // Steps are small, sometimes long, and now and then backwards.
        let step: Int64 =
            switch self.draw(20) {
            case 0: Int64(self.draw(30_000)) * 1_000
            case 1: -Int64(self.draw(2_000)) * 1_000
            case 2...8: 0
            default: Int64(self.draw(3_000))
            }
        let words = self.words().split(separator: " ", omittingEmptySubsequences: false)
        // An underscore is an empty argument, since a space parts arguments.
        return (words.map { $0 == "_" ? [] : Bytes($0.utf8) }, step)
    }

    private mutating func draw(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self.generator) }
    private mutating func chance(_ percent: Int) -> Bool { self.draw(100) < percent }
    private mutating func pick(_ words: [String]) -> String {
        let word = words[self.draw(words.count)]
        return word.isEmpty ? "_" : word
    }

    /// Returns a key that has values of one kind, seldom of another.
    private mutating func key(_ kind: Character) -> String {
        let kind = self.chance(3) ? Character(self.pick(["s", "h", "l", "t", "z", "x"])) : kind
        return "\(kind)\(self.draw(3))"
    }

    private mutating func maybe(_ words: [String], percent: Int = 50) -> String {
        self.chance(percent) ? " " + self.pick(words) : ""
    }

    private mutating func list(_ count: ClosedRange<Int>, _ word: (inout Self) -> String) -> String {
        (0..<Int.random(in: count, using: &self.generator)).map { _ in word(&self) }.joined(separator: " ")
    }

    private mutating func value() -> String {
        self.chance(30)
            ? self.pick(Self.numbers)
            : self.pick(["v", "value", "\u{e9}", "x\r\ny", String(repeating: "w", count: 70)])
    }

    private mutating func words() -> String {
        switch self.draw(12) {
        case 0: self.strings()
        case 1, 2: self.hashes()
        case 3: self.lists()
        case 4: self.sets()
        case 5, 6: self.sortedSets()
        case 7, 8: self.streams()
        case 9, 10: self.groups()
        default: self.keys()
        }
    }

    private mutating func keys() -> String {
        let kinds = ["s", "h", "l", "t", "z", "x"]
        let key = self.key(Character(self.pick(kinds)))
        switch self.draw(11) {
        case 0: return "DEL \(key)" + (self.chance(30) ? " " + self.key("h") : "")
        case 1: return "EXISTS \(key) \(key)"
        case 2: return "TYPE \(key)"
        case 3:
            let time = self.pick(["10", "1000", "60000", "0", "-5", "x"])
            return "PEXPIRE \(key) \(time)" + self.maybe(["NX", "XX", "GT", "LT", "NX GT", "bad"], percent: 40)
        case 4: return "PTTL \(key)"
        case 5: return "PERSIST \(key)"
        case 6: return "RENAME \(key) \(key.first ?? "s")\(self.draw(3))"
        case 7: return "TIME"
        case 8: return self.pick(["GET", "NOSUCH a b", "HGET h0", "PING hello", "ECHO", "CLUSTER NODES"])
        case 9: return "TTL \(key)"
        default: return "MEMORY USAGE missing"
        }
    }

    private mutating func strings() -> String {
        let key = self.key("s")
        switch self.draw(10) {
        case 0, 1:
            let options = ["NX", "XX", "GET", "PX 500", "EX 3", "NX GET", "KEEPTTL", "PX 0", "NX XX", "EX 1 PX 1"]
            return "SET \(key) \(self.value())" + self.maybe(options)
        case 2: return "GET \(key)"
        case 3: return "MGET \(key) \(self.key("s")) h0"
        case 4: return "INCR \(key)"
        case 5: return "INCRBY \(key) \(self.pick(Self.numbers + ["9223372036854775807", "x"]))"
        case 6: return "STRLEN \(key)"
        case 7: return "SETBIT \(key) \(self.pick(["0", "7", "8", "100", "-1"])) \(self.pick(["0", "1", "2"]))"
        case 8: return "GETBIT \(key) \(self.pick(["0", "7", "100"]))"
        default: return "BITCOUNT \(key)" + self.maybe(["0 0", "1 -1", "-2 -1", "0"], percent: 40)
        }
    }

    private mutating func hashes() -> String {
        let (key, field) = (self.key("h"), self.pick(Self.fields))
        switch self.draw(12) {
        case 0, 1: return "HSET \(key) " + self.list(1...3) { "\($0.pick(Self.fields)) \($0.value())" }
        case 2: return "HGET \(key) \(field)"
        case 3: return "HMGET \(key) " + self.list(1...3) { $0.pick(Self.fields) }
        case 4: return "HDEL \(key) " + self.list(1...3) { $0.pick(Self.fields) }
        case 5: return "HGETALL \(key)"
        case 6: return "\(self.pick(["HKEYS", "HVALS", "HLEN"])) \(key)"
        case 7: return "HINCRBY \(key) \(field) \(self.pick(Self.numbers + ["9223372036854775807"]))"
        case 8: return "HSETNX \(key) \(field) \(self.value())"
        case 9: return "HEXISTS \(key) \(field)"
        case 10: return "HRANDFIELD \(key) 100"
        default: return "HSCAN \(key) 0 COUNT 1000" + self.maybe(["MATCH a*", "MATCH [ab]", "MATCH ?", "MATCH [^a-b]"])
        }
    }

    private mutating func lists() -> String {
        let key = self.key("l")
        let range = "\(self.pick(Self.numbers)) \(self.pick(Self.numbers))"
        switch self.draw(9) {
        case 8: return "LSET \(key) \(self.pick(Self.numbers)) \(self.value())"
        case 0, 1: return "RPUSH \(key) " + self.list(1...4) { $0.value() }
        case 2: return "LPUSH \(key) \(self.value())"
        case 3: return "LPOP \(key)" + self.maybe(["0", "1", "3", "-1"])
        case 4: return "LLEN \(key)"
        case 5: return "LINDEX \(key) \(self.pick(Self.numbers))"
        case 6: return "\(self.pick(["LRANGE", "LTRIM"])) \(key) \(range)"
        default: return "LPOS \(key) \(self.value())"
        }
    }

    private mutating func sets() -> String {
        let key = self.key("t")
        switch self.draw(7) {
        case 0, 1: return "SADD \(key) " + self.list(1...3) { $0.value() }
        case 2: return "SREM \(key) " + self.list(1...3) { $0.value() }
        case 3: return "SCARD \(key)"
        case 4: return "SISMEMBER \(key) \(self.value())"
        case 5: return "SMEMBERS \(key)"
        default: return "SSCAN \(key) 0 COUNT 1000"
        }
    }

    private mutating func sortedSets() -> String {
        let key = self.key("z")
        let ranks = "\(self.pick(Self.numbers)) \(self.pick(Self.numbers))"
        let bounds = ["-inf", "+inf", "0", "(1", "2.5", "(2.5", "1e20", "x"]
        let range = "\(self.pick(bounds)) \(self.pick(bounds))"
        switch self.draw(14) {
        case 0, 1, 2:
            let options = self.maybe(["NX", "XX", "GT", "LT", "CH", "GT CH", "XX LT", "NX GT", "INCR"], percent: 40)
            return "ZADD \(key)\(options) " + self.list(1...3) { "\($0.pick(Self.scores)) \($0.pick(Self.fields))" }
        case 3: return "ZREM \(key) " + self.list(1...2) { $0.pick(Self.fields) }
        case 4: return "ZCARD \(key)"
        case 5: return "ZSCORE \(key) \(self.pick(Self.fields))"
        case 6: return "ZCOUNT \(key) \(range)"
        case 7: return "ZRANGE \(key) \(ranks)" + self.maybe(["WITHSCORES"])
        case 8: return "ZRANGEBYSCORE \(key) \(range)" + self.maybe(["WITHSCORES", "LIMIT 0 2", "LIMIT 1 -1"])
        case 9: return "ZREVRANGEBYSCORE \(key) \(range)" + self.maybe(["WITHSCORES", "WITHSCORES LIMIT 0 2"])
        case 10: return "ZREMRANGEBYSCORE \(key) \(range)"
        case 11: return "ZREMRANGEBYRANK \(key) \(ranks)"
        case 12: return "ZPOPMIN \(key)" + self.maybe(["0", "2", "-1"])
        default: return "ZSCAN \(key) 0 COUNT 1000" + self.maybe(["MATCH a*"])
        }
    }

    private mutating func entryID() -> String {
        self.pick([
            "0-1", "5-1", "5-2", "5", "6-*", "1700000000000-0", "1700000000001-*", "0", "7-7", "x", "0-0", "00-1",
        ])
    }

    private mutating func bound() -> String { self.pick(["-", "+", "5", "(5-1", "5-2", "(0", "1700000000000", "x"]) }

    private mutating func streams() -> String {
        let key = self.key("x")
        switch self.draw(11) {
        case 0, 1, 2, 3:
            let options = [
                "NOMKSTREAM", "MAXLEN 5", "MAXLEN ~ 3", "MINID ~ 5", "MINID = 6-0", "MAXLEN = 0", "MAXLEN -1",
            ]
            let id = self.chance(75) ? "*" : self.entryID()
            return "XADD \(key)\(self.maybe(options, percent: 30)) \(id) m \(self.value())"
                + self.maybe(["a b", "c"], percent: 20)
        case 4: return "XLEN \(key)"
        case 5:
            return "XRANGE \(key) \(self.bound()) \(self.bound())"
                + self.maybe(["COUNT 2", "COUNT 0", "COUNT -1", "LIMIT 3"])
        case 6: return "XREVRANGE \(key) \(self.bound()) \(self.bound())" + self.maybe(["COUNT 2"])
        case 7: return "XDEL \(key) \(self.entryID()) \(self.entryID())"
        case 8:
            return "XTRIM \(key) "
                + self.pick(["MAXLEN 4", "MAXLEN ~ 2", "MINID 5-2", "MAXLEN", "MAXLEN ~ 1 LIMIT 1", "MAXLEN 1 LIMIT 1"])
        case 9:
            return
                "XREAD\(self.maybe(["COUNT 2"])) STREAMS \(key) \(self.key("x")) \(self.entryID()) \(self.pick(["0", "$", "5-1"]))"
        default: return "XINFO \(self.pick(["STREAM", "GROUPS", "NOSUCH"])) \(key)"
        }
    }

    private mutating func groups() -> String {
        let (key, group, consumer) = (self.key("x"), self.pick(Self.groups), self.pick(Self.consumers))
        let idle = self.pick(["0", "0", "5", "1000", "x"])
        switch self.draw(16) {
        case 0, 1, 2, 3, 4:
            let end = self.chance(85) ? ">" : self.entryID()
            return
                "XREADGROUP GROUP \(group) \(consumer)\(self.maybe(["COUNT 1", "COUNT 3", "NOACK"])) STREAMS \(key) \(end)"
        case 5:
            return "XGROUP CREATE \(key) \(group) \(self.pick(["0", "$", "5-1"]))"
                + self.maybe(["MKSTREAM"], percent: 80)
        case 6: return "XGROUP SETID \(key) \(group) \(self.pick(["0", "$", "5-1", "1700000000000"]))"
        case 7:
            return "XGROUP "
                + self.pick([
                    "DESTROY \(key) \(group)", "CREATECONSUMER \(key) \(group) \(consumer)",
                    "DELCONSUMER \(key) \(group) \(consumer)", "NOSUCH",
                ])
        case 8: return "XACK \(key) \(group) " + self.list(1...3) { $0.entryID() }
        case 9, 10:
            let options = [
                "JUSTID", "FORCE", "FORCE JUSTID", "IDLE 1000 JUSTID", "RETRYCOUNT 3", "TIME 5", "LASTID 5-2", "bad",
            ]
            return "XCLAIM \(key) \(group) \(consumer) \(idle) " + self.list(1...3) { $0.entryID() }
                + self.maybe(options)
        case 11, 12:
            return "XAUTOCLAIM \(key) \(group) \(consumer) \(idle) \(self.pick(["0", "5-1", "-", "(5-1"]))"
                + self.maybe(["COUNT 1", "COUNT 3", "JUSTID", "COUNT 2 JUSTID", "COUNT 0"])
        case 13: return "XPENDING \(key) \(group)"
        case 14:
            return
                "XPENDING \(key) \(group)\(self.maybe(["IDLE 5"])) \(self.bound()) \(self.bound()) \(self.pick(["1", "10", "0"]))"
                + self.maybe(Self.consumers)
        default: return "XINFO CONSUMERS \(key) \(group)"
        }
    }
}
