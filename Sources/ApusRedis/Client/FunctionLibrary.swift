/// The server-side logic: one Redis function library, assembled from the Lua sources of its owners.
///
/// The name carries the major version (`apus1`), so that a new major is loaded beside the old one and services roll; the
/// minor is what a generated function `<name>_version` answers. An operator's command loads it; services only check.
///
/// A source that registers a function stands in a block of its own: its locals are nobody else's, and a library of many
/// files stays below Lua's 200 locals of one chunk. A source that registers nothing is shared: its locals are seen by all
/// sources after it.
public struct FunctionLibrary: Sendable {
    /// A version: programs ask for the same major and at least their minor.
    public struct Version: Sendable, Hashable, Comparable, CustomStringConvertible {
        /// Incompatible changes.
        public let major: Int
        /// Additions.
        public let minor: Int

        /// A version.
        public init(major: Int, minor: Int) {
            precondition(major >= 0 && minor >= 0)
            self.major = major
            self.minor = minor
        }

        /// Older.
        public static func < (one: Version, other: Version) -> Bool {
            (one.major, one.minor) < (other.major, other.minor)
        }

        /// "1.4".
        public var description: String { "\(self.major).\(self.minor)" }
    }

    /// What loading did on one server.
    public enum Loading: Sendable, Hashable {
        /// It was loaded; it replaced that version, if there was one.
        case loaded(replacing: Version?)
        /// The server has a newer minor: it stays, since running services may need it.
        case keptNewer(Version)
    }

    /// Its name on the server, such as "apus1".
    public let name: String
    /// Its version.
    public let version: Version
    /// The whole text.
    public let text: [UInt8]

    /// The function that answers the version.
    public var versionFunction: String { "\(self.name)_version" }

    /// Assembles a library.
    ///
    /// - Parameters:
    ///   - name: letters, digits and `_`, ending in the major version.
    ///   - version: of all sources together.
    ///   - sources: Lua texts, in this order.
    /// - Throws: `tooLarge` beyond `RedisLimits.functionLibraryBytesMax`, `configuration` when a source has a head of its
    ///   own (`#!`).
    public init(name: String, version: Version, sources: [[UInt8]]) throws(RedisError) {
        precondition(name.hasSuffix(String(version.major)), "the name carries the major version")
        precondition(name.utf8.allSatisfy { $0 == 0x5f || Self.isAlphanumeric($0) }, "not a name of a library")
        self.name = name
        self.version = version
        var text = Array("#!lua name=\(name)\n\(Self.head)".utf8)
        for source in sources {
            guard !source.starts(with: "#!".utf8) else {
                throw RedisError(.configuration, "a source of the function library has a head of its own")
            }
            let registers = source.contains(text: "register_function")
            // Lua reports errors by line: the block opens and closes on lines that the source does not use.
            text += registers ? Array("do\n".utf8) : []
            text += source
            text += registers ? Array("\nend\n".utf8) : [0x0a]
        }
        text += Array(Self.versionSource(name: name, version: version).utf8)
        guard text.count <= RedisLimits.functionLibraryBytesMax else {
            throw RedisError(.tooLarge, "a function library of more than \(RedisLimits.functionLibraryBytesMax) bytes")
        }
        self.text = text
    }

    /// Loads it on every server that takes writes, unless that has a newer minor.
    ///
    /// - Returns: what happened, server by server.
    /// - Throws: the server's error, with Lua's words when the text does not compile.
    @discardableResult
    public func load(on client: RedisClient) async throws(RedisError) -> [Loading] {
        var results: [Loading] = []
        for endpoint in client.topology.endpoints {
            let found = try await self.loadedVersion(on: client, at: endpoint)
            if let found, found > self.version {
                results.append(.keptNewer(found))
                continue
            }
            let command = RedisCommand("FUNCTION", "LOAD", "REPLACE", .bytes(self.text))
            _ = try await client.send(command, to: endpoint)
            results.append(.loaded(replacing: found))
        }
        return results
    }

    /// Asks every server for its version: what services do when they start.
    ///
    /// - Throws: `functionsMissing` or `functionsOutdated`, with what to do about it.
    public func check(on client: RedisClient) async throws(RedisError) {
        for endpoint in client.topology.endpoints {
            guard let found = try await self.loadedVersion(on: client, at: endpoint) else {
                throw RedisError(.functionsMissing, "library \(self.name) is not loaded on \(endpoint): run apus init")
            }
            guard found.major == self.version.major, found.minor >= self.version.minor else {
                let text = "library \(self.name) on \(endpoint) is \(found), needed is \(self.version): run apus init"
                throw RedisError(.functionsOutdated, text)
            }
        }
    }

    /// The version that a server has; nil when the library is not loaded.
    private func loadedVersion(
        on client: RedisClient,
        at endpoint: RedisEndpoint,
    ) async throws(RedisError) -> Version? {
        do throws(RedisError) {
            let command = RedisCommand.call(self.versionFunction, keys: [], readOnly: true)
            let answer = try await client.send(command, to: endpoint)
            let reply = answer.root
            guard let major = reply.element(0)?.integer, let minor = reply.element(1)?.integer,
                (0...Int64(Int32.max)).contains(major), (0...Int64(Int32.max)).contains(minor)
            else { throw answer.unexpected("two numbers") }
            return Version(major: Int(major), minor: Int(minor))
        } catch  where error.code == .functionMissing {
            return nil
        }
    }

    private static func versionSource(name: String, version: Version) -> String {
        """
        redis.register_function{
            function_name = '\(name)_version',
            callback = function() return {\(version.major), \(version.minor)} end,
            flags = {'no-writes', 'allow-stale'}
        }

        """
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
    }
}

extension [UInt8] {
    fileprivate func contains(text: StaticString) -> Bool {
        self.firstRange(of: Array("\(text)".utf8)) != nil
    }
}
