internal import ApusCore

/// Assembles the server-side logic, one Redis function library, from the Lua sources of its owners.
///
/// The name carries the major version (`apus1`), so that a new major version is loaded beside the old one and services
/// can be upgraded one by one; a generated function `<name>_version` returns the minor version. An operator's command
/// loads the library; services only check it.
///
/// A source that registers a function stands in a block of its own: its locals are invisible to others, and a library
/// of many files stays below Lua's limit of 200 locals per chunk. A source that registers nothing is shared: all later
/// sources see its locals.
public struct FunctionLibrary: Sendable {
    /// A version: programs require the same major version and at least their minor version.
    public struct Version: Sendable, Hashable, Comparable, CustomStringConvertible {
        /// Counts incompatible changes.
        public let major: Int
        /// Counts additions.
        public let minor: Int

        /// Creates a version.
        public init(major: Int, minor: Int) {
            precondition(major >= 0 && minor >= 0)
            self.major = major
            self.minor = minor
        }

        /// Orders older versions before newer ones.
        public static func < (one: Version, other: Version) -> Bool {
            (one.major, one.minor) < (other.major, other.minor)
        }

        /// The version as "1.4".
        public var description: String { "\(self.major).\(self.minor)" }
    }

    /// The result of loading on one server.
    public enum Loading: Sendable, Hashable {
        /// The library was loaded; it replaced the given version, if there was one.
        case loaded(replacing: Version?)
        /// The server keeps its newer minor version, since running services may need it.
        case keptNewer(Version)
    }

    /// The time limit of a server's answer to a check.
    private static let checkMax = Duration.seconds(2)
    /// The longest wait for a server's answer to the question whether it lacks the library.
    private static let missingMax = Duration.seconds(1)

    /// The library's name on the server, such as "apus1".
    public let name: String
    /// The library's version.
    public let version: Version
    /// The whole Lua text.
    public let text: [UInt8]

    /// The name of the function that returns the version.
    var versionFunction: String { "\(self.name)_version" }

    /// Assembles a library.
    ///
    /// - Parameters:
    ///   - name: letters, digits and `_`, ending in the major version.
    ///   - version: the version of all sources together.
    ///   - sources: the Lua texts, in order.
    /// - Throws: `tooLarge` beyond `RedisLimits.functionLibraryBytesMax`, `configuration` when a source has a header
    ///   line (`#!`) of its own.
    public init(name: String, version: Version, sources: [[UInt8]]) throws(RedisError) {
        precondition(name.hasSuffix(String(version.major)), "the name carries the major version")
        precondition(name.utf8.allSatisfy { $0 == 0x5f || Self.isAlphanumeric($0) }, "not a name of a library")
        self.name = name
        self.version = version
        var text = Array("#!lua name=\(name)\n\(Self.head)".utf8)
        for source in sources {
            guard !source.starts(with: "#!".utf8) else {
                throw RedisError(.configuration, "a source of the function library has a header line (#!) of its own")
            }
            let registers = source.contains(text: "register_function".utf8)
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

    /// Loads the library on every server that accepts writes, unless the server has a newer minor version.
    ///
    /// - Returns: the result for each server.
    /// - Throws: the server's error, with Lua's message when the text does not compile.
    @discardableResult
    public func load(on client: RedisClient) async throws(RedisError) -> [Loading] {
        var results: [Loading] = []
        for endpoint in try await client.masters() {
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

    /// Checks the version on every server that answers, as services do when they start.
    ///
    /// - Returns: the masters that lack the library, or have an older version, and hold no slot: nothing calls it there yet.
    /// - Throws: `functionsMissing` or `functionsOutdated`, with the remedy; the last error when no server answers.
    @discardableResult
    public func check(on client: RedisClient) async throws(RedisError) -> [RedisEndpoint] {
        let masters = try await client.topology.knownMasters(within: client.configuration.patience)
        // One attempt at each, at all at once: those that are away delay nobody.
        let options = RedisClient.Options(isIdempotent: true, patience: .zero, timeout: Self.checkMax)
        let answers = await withTaskGroup(of: (RedisEndpoint, Result<Version?, RedisError>).self) { group in
            for endpoint in masters {
                group.addTask {
                    do throws(RedisError) {
                        let version = try await self.loadedVersion(on: client, at: endpoint, options: options)
                        return (endpoint, .success(version))
                    } catch {
                        return (endpoint, .failure(error))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var silence: RedisError?
        var hasAnswer = false
        var unused: [RedisEndpoint] = []
        for (endpoint, answer) in answers {
            let version: Version?
            do throws(RedisError) {
                version = try answer.get()
                hasAnswer = true
            } catch {
                // The other servers of a cluster go on without it.
                guard error.isUnanswered || error.isRetryable else { throw error }
                silence = error
                continue
            }
            if !self.isEnough(version), !client.topology.holdsSlots(endpoint) {
                unused.append(endpoint)
                continue
            }
            guard let found = version else {
                throw RedisError(.functionsMissing, "library \(self.name) is not loaded on \(endpoint): run apus init")
            }
            guard self.isEnough(found) else {
                let text = "library \(self.name) on \(endpoint) is \(found), needed is \(self.version): run apus init"
                throw RedisError(.functionsOutdated, text)
            }
        }
        if let silence, !hasAnswer { throw silence }
        return unused.sorted { "\($0)" < "\($1)" }
    }

    private func isEnough(_ found: Version?) -> Bool {
        guard let found else { return false }
        return found.major == self.version.major && found.minor >= self.version.minor
    }

    /// Returns the masters that answer and lack the library, or have an older version than this one.
    ///
    /// - Throws: when the masters are not known.
    package func missing(on client: RedisClient) async throws(RedisError) -> [RedisEndpoint] {
        let masters = try await client.topology.knownMasters(within: .zero)
        // At all at once: one that hangs keeps nobody from being named. It is reported as such.
        return await withTaskGroup(of: RedisEndpoint?.self) { group in
            for endpoint in masters {
                group.addTask {
                    let isEnough = await firstWithin(Self.missingMax) { () -> Bool? in
                        let options = RedisClient.Options(patience: .zero)
                        do throws(RedisError) {
                            return self.isEnough(
                                try await self.loadedVersion(on: client, at: endpoint, options: options)
                            )
                        } catch {
                            return nil
                        }
                    }
                    return isEnough == .some(false) ? endpoint : nil
                }
            }
            let missing = await group.reduce(into: [RedisEndpoint]()) { found, next in
                if let next { found.append(next) }
            }
            return missing.sorted { "\($0)" < "\($1)" }
        }
    }

    /// Returns the version on a server; nil when the library is not loaded.
    package func loadedVersion(
        on client: RedisClient,
        at endpoint: RedisEndpoint,
        options: RedisClient.Options = .once,
    ) async throws(RedisError) -> Version? {
        do throws(RedisError) {
            let command = RedisCommand.call(self.versionFunction, keys: [], readOnly: true)
            let answer = try await client.send(command, to: endpoint, options: options)
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
    /// Returns true when the text stands anywhere in these bytes. The standard library's search takes 50 ms for all sources.
    fileprivate func contains(text: String.UTF8View) -> Bool {
        guard let first = text.first else { return true }
        return self.indices.contains { self[$0] == first && self[$0...].starts(with: text) }
    }
}
