import ApusRedis
import ApusTestKit
import Testing

@Suite("Function library")
struct FunctionLibraryTests {
    private let tag = HashTag("q1")

    private static let shared = "local function twice(text) return text .. text end\n"
    private static let first = """
        local function run(keys, args) return redis.call('SET', keys[1], twice(args[1])) end
        redis.register_function{function_name = 'apus1_first', callback = run}
        """
    private static let second = """
        local function run(keys) return redis.call('GET', keys[1]) end
        redis.register_function{function_name = 'apus1_second', callback = run, flags = {'no-writes'}}
        """

    private static func library(minor: Int = 0, _ sources: String...) throws -> FunctionLibrary {
        try FunctionLibrary(
            name: "apus1",
            version: FunctionLibrary.Version(major: 1, minor: minor),
            sources: sources.map { Array($0.utf8) },
        )
    }

    @Test("sources of several owners become one library; locals stay at home, shared ones are seen by all")
    func assembled() async throws {
        try await withClient { _, client in
            let library = try Self.library(Self.shared, Self.first, Self.second)
            await expectError(.functionsMissing) { try await library.check(on: client) }
            #expect(try await library.load(on: client) == [.loaded(replacing: nil)])
            try await library.check(on: client)
            let key = self.tag.key("k")
            let set = try await client.call("apus1_first", on: self.tag, keys: [key], arguments: ["ab"])
            #expect(set.root.string == "OK")
            let get = try await client.call("apus1_second", on: self.tag, keys: [key], readOnly: true)
            #expect(get.root.string == "abab")
            let refused = await expectError(.server) {
                _ = try await client.call("apus1_first", on: self.tag, keys: [key], arguments: ["x"], readOnly: true)
            }
            #expect(refused?.message.contains("write") == true)
        }
    }

    @Test("more functions than a chunk may have locals")
    func manySources() async throws {
        try await withClient { _, client in
            let sources = (0..<300).map { number in
                Array(
                    """
                    local function run() return \(number) end
                    redis.register_function{function_name = 'apus1_f\(number)', callback = run, flags = {'no-writes'}}
                    """.utf8
                )
            }
            let version = FunctionLibrary.Version(major: 1, minor: 0)
            let library = try FunctionLibrary(name: "apus1", version: version, sources: sources)
            try await library.load(on: client)
            #expect(try await client.call("apus1_f299", on: self.tag, keys: []).root.integer == 299)
        }
    }

    @Test("a newer minor replaces an older one, an older one leaves a newer alone, a new major stands beside")
    func versions() async throws {
        try await withClient { _, client in
            let old = try Self.library(minor: 1, Self.second)
            let new = try Self.library(minor: 2, Self.second)
            let one = FunctionLibrary.Version(major: 1, minor: 1)
            let two = FunctionLibrary.Version(major: 1, minor: 2)
            #expect(try await old.load(on: client) == [.loaded(replacing: nil)])
            let error = await expectError(.functionsOutdated) { try await new.check(on: client) }
            #expect(error?.message.contains("is 1.1, needed is 1.2") == true)
            #expect(try await new.load(on: client) == [.loaded(replacing: one)])
            #expect(try await new.load(on: client) == [.loaded(replacing: two)])
            try await old.check(on: client)
            #expect(try await old.load(on: client) == [.keptNewer(two)])
            let major = FunctionLibrary.Version(major: 2, minor: 0)
            let beside = try FunctionLibrary(name: "apus2", version: major, sources: [])
            #expect(try await beside.load(on: client) == [.loaded(replacing: nil)])
            try await new.check(on: client)
            try await beside.check(on: client)
        }
    }

    @Test("functions survive a restart")
    func restart() async throws {
        try await withClient(RedisServer.Options(isAppendOnly: true)) { server, client in
            let library = try Self.library(Self.second)
            try await library.load(on: client)
            try await server.restart()
            try await eventually("the client is back") {
                do {
                    try await library.check(on: client)
                    return true
                } catch let error as RedisError where error.isRetryable || error.isOutcomeUnknown {
                    return false
                }
            }
        }
    }

    @Test("a text that does not compile is told with Lua's words")
    func broken() async throws {
        try await withClient { _, client in
            let library = try Self.library("redis.register_function{ nonsense")
            let error = await expectError(.server) { try await library.load(on: client) }
            #expect(error?.message.contains("Error compiling function") == true)
        }
    }

    @Test("a source with a head of its own, and a library that is too large, are refused")
    func refused() throws {
        #expect(
            throws: RedisError(.configuration, "a source of the function library has a header line (#!) of its own")
        ) {
            try Self.library("#!lua name=other\n")
        }
        let frame = try Self.library("").text.count
        let longest = String(repeating: "-", count: RedisLimits.functionLibraryBytesMax - frame)
        #expect(try Self.library(longest).text.count == RedisLimits.functionLibraryBytesMax)
        #expect(throws: RedisError(.tooLarge, "a function library of more than 1048576 bytes")) {
            try Self.library(longest + "-")
        }
    }

    @Test("a name without its major traps")
    func name() async {
        await #expect(processExitsWith: .failure) {
            _ = try FunctionLibrary(name: "apus", version: FunctionLibrary.Version(major: 1, minor: 0), sources: [])
        }
    }
}
