/// Parses the text of a Redis address.
struct RedisAddress {
    static let defaultPort = 6_379
    static let defaultSentinelPort = 26_379

    /// The schemes of addresses.
    static let schemes = [
        "redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel",
    ]

    let endpoint: RedisEndpoint
    /// The servers of a cluster, or the Sentinels, after the first.
    let otherEndpoints: [RedisEndpoint]
    let deployment: RedisConfiguration.Deployment
    let username: String?
    let password: String?
    let tls: RedisConfiguration.TLS?

    init(_ text: String) throws(RedisError) {
        guard let schemeEnd = text.firstRange(of: "://") else {
            throw Self.wrongScheme
        }
        let scheme = text[..<schemeEnd.lowerBound]
        var rest = text[schemeEnd.upperBound...]
        var query: Substring = ""
        if let mark = rest.firstIndex(of: "?") {
            query = rest[rest.index(after: mark)...]
            rest = rest[..<mark]
        }
        // A password may hold an unencoded "@", a host never does. A path may: only the text before its "/" counts.
        let authorityEnd = rest.firstIndex(of: "/") ?? rest.endIndex
        if scheme.hasPrefix("redis"), rest[authorityEnd...].contains("@") {
            throw Self.wrong("in a user or a password '/' is written as %2F")
        }
        var (username, password): (String?, String?) = (nil, nil)
        if let at = rest[..<authorityEnd].lastIndex(of: "@") {
            let userInfo = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            username = try Self.decoded(userInfo[0])
            password = userInfo.count > 1 ? try Self.decoded(userInfo[1]) : nil
            rest = rest[rest.index(after: at)...]
            if username?.isEmpty == true { username = nil }
            guard password?.isEmpty != true else { throw Self.wrong("the password is empty") }
            guard username == nil || password != nil else { throw Self.wrong("a user needs a password") }
        }
        self.username = username
        self.password = password
        switch scheme {
        case "redis", "redis+cluster":
            self.deployment = scheme.hasSuffix("+cluster") ? .cluster : .server
            (self.endpoint, self.otherEndpoints) = try Self.servers(rest, of: self.deployment)
            self.tls = nil
            guard query.isEmpty else { throw Self.wrong("\(scheme):// takes no settings after '?'") }
        case "rediss", "rediss+cluster":
            self.deployment = scheme.hasSuffix("+cluster") ? .cluster : .server
            (self.endpoint, self.otherEndpoints) = try Self.servers(rest, of: self.deployment)
            self.tls = Self.tls(try Self.settings(query, named: ["ca", "server_name"]))
        case "redis+sentinel", "rediss+sentinel":
            let isEncrypted = scheme.hasPrefix("rediss")
            let own = ["sentinel_user", "sentinel_password"]
            let settings = try Self.settings(query, named: (isEncrypted ? ["ca", "server_name"] : []) + own)
            let sentinel = try Self.sentinel(rest, settings)
            self.deployment = .sentinel(sentinel)
            let servers = rest[..<(rest.firstIndex(of: "/") ?? rest.endIndex)]
            (self.endpoint, self.otherEndpoints) = try Self.servers(servers, of: self.deployment)
            self.tls = isEncrypted ? Self.tls(settings) : nil
        case "unix":
            self.deployment = .server
            let path = try Self.decoded(rest)
            guard path.hasPrefix("/"), path.utf8.count <= 107 else {
                throw Self.wrong("unix:// needs an absolute path of at most 107 bytes")
            }
            self.endpoint = .unixSocket(path: path)
            self.otherEndpoints = []
            self.tls = nil
            guard query.isEmpty else { throw Self.wrong("unix:// takes no settings after '?'") }
        default:
            throw Self.wrongScheme
        }
    }

    private static var wrongScheme: RedisError {
        let schemes = Self.schemes.map { "\($0)://" }
        return Self.wrong(
            "it must begin with \(schemes.dropLast().joined(separator: ", ")) or \(schemes[schemes.count - 1])"
        )
    }

    /// Parses a server, or several with commas between them.
    private static func servers(
        _ text: Substring,
        of deployment: RedisConfiguration.Deployment,
    ) throws(RedisError) -> (first: RedisEndpoint, others: [RedisEndpoint]) {
        var parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard deployment != .server || parts.count == 1 else {
            throw Self.wrong(
                "several servers are a cluster, redis+cluster:// or rediss+cluster://, or Sentinels, redis+sentinel:// or "
                    + "rediss+sentinel://"
            )
        }
        guard parts.count <= RedisLimits.seedsMax else {
            throw Self.wrong("at most \(RedisLimits.seedsMax) servers can be named")
        }
        // A path may follow the last server.
        for index in parts.indices.dropLast() where parts[index].contains("/") {
            throw Self.wrong("a '/' before a ','")
        }
        let defaultPort = deployment.isSentinel ? Self.defaultSentinelPort : Self.defaultPort
        let first = try Self.hostAndPort(parts.removeFirst(), defaultPort)
        var others: [RedisEndpoint] = []
        for part in parts { others.append(try Self.hostAndPort(part, defaultPort)) }
        guard !deployment.isSentinel || Set([first] + others).count == others.count + 1 else {
            throw Self.wrong("a Sentinel is named twice: each has one vote")
        }
        return (first, others)
    }

    /// Parses what stands in the address of Sentinels besides their names.
    private static func sentinel(
        _ text: Substring,
        _ settings: [String: String],
    ) throws(RedisError) -> RedisConfiguration.Sentinel {
        guard let slash = text.firstIndex(of: "/") else {
            throw Self.wrong("the master's name is missing: redis+sentinel://HOST:26379,HOST:26379/NAME")
        }
        let name = try Self.decoded(text[text.index(after: slash)...])
        // The characters that a Sentinel takes in the name of a master.
        guard !name.isEmpty, name.utf8.count <= RedisLimits.masterNameBytesMax,
            name.utf8.allSatisfy({ Self.isAlphanumeric($0) || ".-_".utf8.contains($0) })
        else {
            throw Self.wrong("after the Sentinels and '/' comes the master's name of letters, digits, '.', '-' and '_'")
        }
        let password = settings["sentinel_password"]
        guard settings["sentinel_user"] == nil || password != nil else {
            throw Self.wrong("sentinel_user needs sentinel_password beside it")
        }
        return RedisConfiguration.Sentinel(
            masterName: name,
            username: settings["sentinel_user"],
            password: password,
        )
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
    }

    private static func wrong(_ reason: String) -> RedisError {
        RedisError(.configuration, "not a Redis address: \(reason)")
    }

    private static func hostAndPort(_ text: Substring, _ defaultPort: Int) throws(RedisError) -> RedisEndpoint {
        var text = text
        if let slash = text.firstIndex(of: "/") {
            guard text[slash...] == "/" || text[slash...] == "/0" else {
                throw Self.wrong("a cluster has only database 0")
            }
            text = text[..<slash]
        }
        var host = text
        var port: Substring?
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { throw Self.wrong("'[' without ']'") }
            host = text[text.index(after: text.startIndex)..<close]
            let after = text[text.index(after: close)...]
            guard after.isEmpty || after.hasPrefix(":") else { throw Self.wrong("unexpected text after ']'") }
            port = after.isEmpty ? nil : after.dropFirst()
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            port = text[text.index(after: colon)...]
        }
        guard !host.isEmpty else { throw Self.wrong("the host is missing") }
        guard let port else { return .host(String(host), port: defaultPort) }
        guard let number = Int(port), (1...65_535).contains(number) else {
            throw Self.wrong("the port must be 1 to 65535")
        }
        return .host(String(host), port: number)
    }

    /// Parses `name=value&…` of the given names.
    private static func settings(
        _ query: Substring,
        named names: [String],
    ) throws(RedisError) -> [String: String] {
        var settings: [String: String] = [:]
        for setting in query.split(separator: "&") {
            let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[1].isEmpty else { throw Self.wrong("settings are name=value") }
            let name = String(parts[0])
            guard names.contains(name) else {
                throw Self.wrong("the settings are \(names.joined(separator: ", "))")
            }
            settings[name] = try Self.decoded(parts[1])
        }
        return settings
    }

    private static func tls(_ settings: [String: String]) -> RedisConfiguration.TLS {
        RedisConfiguration.TLS(certificateAuthorityFile: settings["ca"], serverName: settings["server_name"])
    }

    private static func decoded(_ text: Substring) throws(RedisError) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == 0x25 else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst(), let low = rest.popFirst(),
                let value = UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)
            else { throw Self.wrong("'%' without two hexadecimal digits") }
            bytes.append(value)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else { throw Self.wrong("not UTF-8") }
        return decoded
    }
}
