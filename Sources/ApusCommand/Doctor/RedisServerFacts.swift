internal import ApusCore
package import ApusRedis

/// Holds values of INFO and CONFIG of one server.
package struct RedisServerFacts: Hashable, Sendable {
    /// The fields of `INFO`.
    package var info: [String: String]
    /// The values of `CONFIG` that were requested and returned; the user may lack the permission.
    package var settings: [String: String]
    /// The difference of its clock to this machine's, in milliseconds; negative when it is behind.
    package var clockAheadMilliseconds: Int64
    /// The shortest of a few response times, in microseconds.
    package var roundTripMicroseconds: Int64

    /// Creates facts.
    package init(
        info: [String: String],
        settings: [String: String] = [:],
        clockAheadMilliseconds: Int64 = 0,
        roundTripMicroseconds: Int64 = 0,
    ) {
        self.info = info
        self.settings = settings
        self.clockAheadMilliseconds = clockAheadMilliseconds
        self.roundTripMicroseconds = roundTripMicroseconds
    }

    /// The settings that `INFO` does not contain.
    private static let settingNames = ["hash-max-listpack-value", "appendfsync"]
    /// The number of readings of the clock: the quickest answer is the most exact.
    private static let clockReadings = 5

    /// Queries a server.
    ///
    /// - Throws: the reason why it does not answer, or refuses this user.
    package init(of endpoint: RedisEndpoint, _ client: RedisClient) async throws(RedisError) {
        let clock = SystemClock()
        var best: (ahead: Int64, nanoseconds: Int64)?
        for _ in 0..<Self.clockReadings {
            let before = clock.nanosecondsSince1970()
            let time = try await client.send(RedisCommand("TIME"), to: endpoint).root
            let after = clock.nanosecondsSince1970()
            let theirs = (time.element(0)?.integer ?? 0) * 1_000_000_000 + (time.element(1)?.integer ?? 0) * 1_000
            let duration = max(0, after - before)
            guard best.map({ duration < $0.nanoseconds }) ?? true else { continue }
            best = ((theirs - (before + duration / 2)) / 1_000_000, duration)
        }
        var settings: [String: String] = [:]
        for name in Self.settingNames {
            let reply = try? await client.send(RedisCommand("CONFIG", "GET", .text(name)), to: endpoint)
            if let value = reply?.root.element(1)?.string { settings[name] = value }
        }
        let info = try await client.send(RedisCommand("INFO"), to: endpoint).root.string ?? ""
        self.init(
            info: Self.fields(ofInfo: info),
            settings: settings,
            clockAheadMilliseconds: best?.ahead ?? 0,
            roundTripMicroseconds: (best?.nanoseconds ?? 0) / 1_000,
        )
    }

    /// Parses the answer of `INFO`: `name:value` lines, and headings that begin with #.
    ///
    /// Source: https://redis.io/docs/latest/commands/info/
    package static func fields(ofInfo text: String) -> [String: String] {
        var fields: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[String(line[..<colon])] = String(line[line.index(after: colon)...])
        }
        return fields
    }

    /// The number of replicas that have all data, and get what is written: the lines `slave0:ip=…,port=…,state=online,…`.
    var replicasOnline: Int {
        self.info.count { name, value in
            name.hasPrefix("slave") && value.split(separator: ",").contains("state=online")
        }
    }

    func number(_ name: String) -> Int64? { self.info[name].flatMap { Int64($0) } }
}
