import ApusBuiltInProviders
import ApusCore
import ApusLab
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusTLS
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// The README or an article of a target's catalogue, as its reader types it.
private struct Article {
    /// A block of code.
    struct Block {
        let language: String
        let code: String

        /// The file that its first line names, behind "# ".
        var file: String? { self.code.firstMatch(of: /^# ([a-z.-]+)\n/).map { String($0.1) } }
    }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    let path: String
    let text: String

    init(_ path: String) throws {
        self.path = path
        self.text = try String(contentsOf: Self.root.appending(path: path), encoding: .utf8)
    }

    static let dashboards = "Dashboards/README.md"

    /// The README, that of the dashboards and every article.
    static func all() throws -> [Article] {
        let sources = Self.root.appending(path: "Sources").path()
        let enumerator = try #require(FileManager.default.enumerator(atPath: sources))
        var articles = [try Article("README.md"), try Article(Self.dashboards)]
        while let path = enumerator.nextObject() as? String {
            guard path.contains(".docc/"), path.hasSuffix(".md") else { continue }
            articles.append(try Article("Sources/\(path)"))
        }
        return articles
    }

    var blocks: [Block] {
        self.text.matches(of: /```([a-z]+)\n([^`]*)\n```/).map { Block(language: "\($0.1)", code: "\($0.2)\n") }
    }

    func blocks(_ language: String) -> [Block] { self.blocks.filter { $0.language == language } }

    /// The part under a heading of the second level.
    func section(_ heading: String) throws -> Substring {
        let start = try #require(self.text.range(of: "\n## \(heading)\n"))
        let rest = self.text[start.upperBound...]
        return rest[..<(rest.range(of: "\n## ")?.lowerBound ?? rest.endIndex)]
    }
}

/// Tests that the commands in the README and the articles work as they are shown.
@Suite(.serialized) struct ArticleTests {
    private struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// The folder of the programs that were built with these tests.
    private static var programs: String {
        URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent().path()
    }

    @discardableResult
    private static func run(_ words: [String], in folder: String, _ own: [String: String] = [:]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = words
        process.currentDirectoryURL = URL(filePath: folder)
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APUS_") }
        environment["PATH"] = "\(Self.programs):\(environment["PATH"] ?? "/usr/bin:/bin")"
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { environment[name] = nil }
        process.environment = environment.merging(own) { _, own in own }
        let file = "\(folder)/said-\(UUID().uuidString).log"
        try Data().write(to: URL(filePath: file))
        let log = try FileHandle(forWritingTo: URL(filePath: file))
        process.standardOutput = log
        process.standardError = log
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        let said = try String(contentsOfFile: file, encoding: .utf8)
        guard process.terminationStatus == 0 else { throw Failed(description: "\(words): \(said)") }
        return said
    }

    /// The key set of RFC 7517 §A.1, without the key for encryption only and its use.
    private static let keySet = #"""
        {"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
          "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}
        """#

    /// A configuration whose files are there: each named one is a file of that folder. Those that a check reads can be used.
    private static func withFiles(_ yaml: String, in folder: String) throws -> String {
        var yaml = yaml
        for match in yaml.matches(of: /\/etc\/apus\/[A-Za-z0-9.-]+/) {
            let name = String(match.output.split(separator: "/").last ?? "")
            let text =
                if name == "jwks.json" {
                    Self.keySet
                } else if name.hasSuffix(".p8") {
                    try CredentialTexts.signingKey
                } else if name.hasSuffix("vapid.pem") {
                    try Self.subscriptionKey(&yaml)
                } else {
                    name.hasSuffix(".json") ? try CredentialTexts.serviceAccount : "anything"
                }
            try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            yaml = yaml.replacing(match.output, with: "\(folder)/\(name)")
        }
        if yaml.contains("/cert.pem") || yaml.contains("/identity.pem") {
            let form = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
            try Self.run(["openssl", "req", "-x509", "-keyout", "key.pem", "-out", "cert.pem"] + form, in: folder)
            try Self.run(["openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "identity.pem"], in: folder)
        }
        return yaml
    }

    /// Returns a new key for browsers, whose public half takes the place of the one that is shown.
    private static func subscriptionKey(_ yaml: inout String) throws -> String {
        let (pem, publicKey) = try CredentialTexts.subscriptionKey
        if let shown = yaml.firstMatch(of: /public_key: ([A-Za-z0-9_-]+)/) {
            yaml = yaml.replacing(shown.1, with: publicKey)
        }
        return pem
    }

    // MARK: Commands

    /// Articles whose commands run where Apus runs; those of the simulator's need nothing of it and have a test of their own.
    private static let commanding = [
        "README.md", "Sources/ApusPublisher/ApusPublisher.docc/Publishing.md",
        "Sources/ApusRegistration/ApusRegistration.docc/HTTPAPI.md",
        "Sources/ApusService/ApusService.docc/Configuration.md",
        "Sources/ApusLab/ApusLab.docc/Benchmarks.md", "Sources/ApusLab/ApusLab.docc/Guarantees.md",
        "Sources/apus/apus.docc/Operations.md", "Sources/apus/apus.docc/Security.md", Article.dashboards,
    ]

    @Test func `Every article with commands is tested`() throws {
        let named = try Article.all().filter { !$0.blocks("sh").isEmpty }.map(\.path)
        let others = named.filter { !$0.hasSuffix("/Simulator.md") }
        #expect(Set(others) == Set(Self.commanding))
    }

    @Test(.timeLimit(.minutes(5)), arguments: commanding)
    func `The commands of an article work, one after the other`(_ path: String) async throws {
        let article = try Article(path)
        var configuration = LocalClusterConfiguration()
        configuration.keyspace = Keyspace()
        configuration.redis.isAppendOnly = true
        try await Fleet.with(configuration) { fleet in
            let folder = try TemporaryDirectory.make("apus-article")
            defer { TemporaryDirectory.remove(folder) }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, port) = try await fleet.startRegistration()
            // Somebody to send to, as a reader has them who came this far.
            try Self.run(
                ["apus", "device", "put", "--app", "demo", "first", "--provider", "apns", "--topic", "news"]
                    + ["--user", "ada", "--token", String(repeating: "ab", count: 32)],
                in: folder,
                ["APUS_REDIS_URL": fleet.redis.tcpURL],
            )
            var script = "set -euo pipefail\n"
            for block in article.blocks {
                if let file = block.file, block.language == "yaml" {
                    let yaml = try Self.withFiles(block.code, in: folder)
                    try yaml.write(toFile: "\(folder)/\(file)", atomically: true, encoding: .utf8)
                }
                if block.language == "sh" { script += block.code }
            }
            script = script.replacing("redis://127.0.0.1:6379", with: fleet.redis.tcpURL)
                .replacing("127.0.0.1:8180", with: "127.0.0.1:\(port)")
            try script.write(toFile: "\(folder)/commands.sh", atomically: true, encoding: .utf8)
            try Self.run(
                ["timeout", "120", "bash", "-x", "commands.sh"],
                in: folder,
                ["APUS_REDIS_URL": fleet.redis.tcpURL],
            )
            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
    }

    /// Checks the spelling of commands that a test cannot run.
    @Test func `Commands for other machines name existing programs, subcommands and options`() throws {
        let folder = try TemporaryDirectory.make("apus-article")
        defer { TemporaryDirectory.remove(folder) }
        var count = 0
        for article in try Article.all() {
            for block in article.blocks("shell") {
                for line in block.code.split(separator: "\n") {
                    let words = line.prefix { $0 != "#" }.split(separator: " ").map(String.init)
                    guard let program = words.first else { continue }
                    let options = words.filter { $0.hasPrefix("--") }
                    if program.hasPrefix("Scripts/") {
                        let script = Article.root.appending(path: program).path()
                        #expect(FileManager.default.isExecutableFile(atPath: script), "\(line)")
                    } else if ["apus", "apus-console", "apus-lab"].contains(program) {
                        let commands = words.dropFirst().prefix { $0.wholeMatch(of: /[a-z]+/) != nil }.prefix(2)
                        let help = try Self.run([program] + commands + ["--help"], in: folder)
                        for option in options { #expect(help.contains(option), "\(line)") }
                        count += 1
                    }
                }
            }
        }
        #expect(count > 10)
    }

    @Test func `An unknown benchmark is refused with the names of the known ones`() {
        let names = Benchmark.all.map(\.name).joined(separator: "|")
        for name in ["speed", "Fanout"] {
            #expect {
                let folder = try TemporaryDirectory.make("apus-article")
                defer { TemporaryDirectory.remove(folder) }
                try Self.run([Article.root.appending(path: "Scripts/bench").path(), name], in: folder)
            } throws: { error in
                "\(error)".contains(names)
            }
        }
    }

    // MARK: Configuration

    @Test func `The services accept every configuration that is shown`() throws {
        var count = 0
        // The simulator's articles and that of the dashboards show configurations of other programs.
        for article in try Article.all()
        where !article.path.hasSuffix("/Simulator.md") && article.path != Article.dashboards {
            for block in article.blocks("yaml") {
                let folder = try TemporaryDirectory.make("apus-article")
                defer { TemporaryDirectory.remove(folder) }
                let yaml = try Self.withFiles(block.code, in: folder)
                try yaml.write(toFile: "\(folder)/apus.yaml", atomically: true, encoding: .utf8)
                try Self.run(["apus", "config", "check", "--config", "apus.yaml"], in: folder)
                count += 1
            }
        }
        #expect(count >= 4)
    }

    /// The keys below a section of the schema, with their defaults.
    private static func keys(_ schema: JSONValue, at path: [String]) -> [(key: String, schema: JSONValue)] {
        guard schema["properties"] != nil || schema["additionalProperties"]?.object != nil else {
            return [(path.joined(separator: "."), schema)]
        }
        var keys: [(String, JSONValue)] = []
        for member in schema["properties"]?.object?.members ?? [] {
            keys += Self.keys(member.value, at: path + [member.name])
        }
        if let others = schema["additionalProperties"], others.object != nil {
            keys += Self.keys(others, at: path + ["*"])
        }
        return keys
    }

    @Test func `Every setting is described with its default, and no other`() throws {
        let folder = try TemporaryDirectory.make("apus-article")
        defer { TemporaryDirectory.remove(folder) }
        let said = try Self.run(["apus", "config", "schema"], in: folder)
        let schema = try JSONValue(parsing: Array(said.utf8), bytesMax: 1 << 20, depthMax: 32)
        let shared = ["admin", "log", "redis", "tracing", "drain_timeout", "event_loops"]
        var expected: [String: String] = [:]
        var meanings: [String: String] = [:]
        for (key, setting) in Self.keys(schema, at: []) {
            let standard = setting["default"]
            meanings[key] = setting["description"]?.string ?? ""
            #expect(meanings[key] != "", "\(key) has no description in the schema")
            let parts = key.split(separator: ".").map(String.init)
            // Settings of all services may stand in a service's own section: the article says so once.
            if ["registration", "dispatcher", "feedback"].contains(parts[0]), shared.contains(parts[1]) { continue }
            expected[key] =
                switch standard {
                case .string(let text)?: text
                case .array(let texts)?: texts.compactMap(\.string).joined(separator: ",")
                case .some(let value): value.text
                case nil: ""
                }
        }
        #expect(expected.count > 80)
        let article = try Article("Sources/ApusService/ApusService.docc/Configuration.md")
        var described: [String: String] = [:]
        for match in article.text.matches(of: /(?m)^\| `([a-z_.*0-9]+)` \| (?:`([^`]*)`)? ?\| (.+) \|$/) {
            #expect(described[String(match.1)] == nil, "\(match.1) stands twice")
            described[String(match.1)] = match.2.map(String.init) ?? ""
            // The schema says what the article says.
            let text = match.3.replacing("`", with: "").dropFirst()
            #expect(meanings[String(match.1)]?.dropFirst().hasPrefix(text) == true, "\(match.1): \(text)")
        }
        #expect(Set(expected.keys).symmetricDifference(described.keys).sorted() == [])
        for (key, standard) in expected where described[key] != nil { #expect(described[key] == standard, "\(key)") }
    }

    // MARK: The HTTP API

    @Test func `The routes are those of the service, and the device that is shown is one`() async throws {
        let article = try Article("Sources/ApusRegistration/ApusRegistration.docc/HTTPAPI.md")
        var configuration = LocalClusterConfiguration()
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array("articles".utf8)))
        try await Fleet.with(configuration) { fleet in
            let (registration, port) = try await fleet.startRegistration()
            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: port,
                on: MultiThreadedEventLoopGroup.singleton,
            )
            let answer = try await connection.send(HTTPClientRequest("GET", "/openapi.json", headers: [], body: []))
            let document = try JSONValue(parsing: answer.body, bytesMax: 1 << 20, depthMax: 32)
            var served: [String: Set<String>] = [:]
            for path in document["paths"]?.object?.members ?? [] {
                let verbs = path.value.object?.members.map { $0.name.uppercased() } ?? []
                served[path.name] = Set(verbs).subtracting(["PARAMETERS"])
            }
            var described: [String: Set<String>] = [:]
            for match in try article.section("Routes").matches(of: /(?m)^\| `(\/[^`]+)` \| ([A-Z ]+) \|/) {
                described[String(match.1)] = Set(match.2.split(separator: " ").map(String.init))
            }
            #expect(described == served)

            let body = try #require(article.blocks("json").first).code
            let headers = [("content-type", "application/json"), ("authorization", "Bearer articles")]
            let path = "/v1/apps/\(Fleet.app)/devices/shown"
            let order = HTTPClientRequest("PUT", path, headers: headers, body: Array(body.utf8))
            #expect(try await connection.send(order).status == 201)
            await connection.close()
            try await registration.terminate()
        }
    }

    // MARK: Promises and figures

    @Test func `Every drill, benchmark and test that backs a promise exists`() throws {
        let folder = Article.root.appending(path: "Tests").path()
        let enumerator = FileManager.default.enumerator(atPath: folder)
        var tests = ""
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix("Tests.swift"), !path.hasSuffix("ArticleTests.swift") else { continue }
            tests += try String(contentsOfFile: "\(folder)/\(path)", encoding: .utf8)
        }
        let guarantees = try Article("Sources/ApusLab/ApusLab.docc/Guarantees.md")
        let sections = [try Article("README.md").section("What is promised"), try guarantees.section("The promises")]
        let all = Set(Drill.all.map(\.name))
        var shown: Set<String> = []
        for section in sections {
            for match in section.matches(of: /`([A-Za-z]+Tests)`/) {
                #expect(tests.contains("struct \(match.1)"), "\(match.1)")
            }
            for match in section.matches(of: /\*([^*]+?) …\*/) {
                #expect(tests.contains("func `\(match.1)"), "\(match.1)")
            }
            // A drill is named in the table's last column, behind the word.
            for row in section.matches(of: /drills? ((`[a-z-]+` ?)+)/) {
                let names = row.1.matches(of: /`([a-z-]+)`/).map { String($0.1) }
                #expect(all.isSuperset(of: names), "\(row.0)")
                shown.formUnion(names)
            }
        }
        #expect(shown == all)
        let described = try guarantees.section("The drills").matches(of: /(?m)^\| `([a-z-]+)` \|/).map { String($0.1) }
        #expect(described == Drill.all.map(\.name))
    }

    @Test func `Every benchmark has its limit in the table`() throws {
        let article = try Article("Sources/ApusLab/ApusLab.docc/Benchmarks.md")
        let named = try article.section("The figures").matches(of: /(?m)^\| `([a-z-]+)` \|/).map { String($0.1) }
        #expect(named == Benchmark.all.map(\.name))
        let rows = try Article("README.md").section("How fast").matches(of: /(?m)^\| `([a-z]+)` \|/)
        let readme = rows.map { String($0.1) }
        #expect(Set(named).isSuperset(of: readme) && readme.count == 4)
    }

    // MARK: Publishing

    private static let publishing = "Sources/ApusPublisher/ApusPublisher.docc/Publishing.md"

    @Test func `The 16 tags and the example of the home shard are those of the keyspace`() throws {
        let keyspace = Keyspace()
        let tags = (0..<keyspace.queueShards).map { keyspace.tag(shard: $0).description }.joined(separator: " ")
        let text = try Article(Self.publishing).text.replacing("\n", with: " ")
        #expect(text.contains(tags))
        #expect(keyspace.placement(app: "shop", id: "order-17").shard == 1)
        #expect(keyspace.tag(shard: 1).description == "{q63}")
        #expect(text.contains("app `shop` and id `order-17` give shard 1, `{q63}`"))
    }

    @Test(.timeLimit(.minutes(5)))
    func `The Python publisher works, and receivers in Python and JavaScript verify our signature`() async throws {
        let folder = try TemporaryDirectory.make("apus-article")
        defer { TemporaryDirectory.remove(folder) }
        let protos = Article.root.appending(path: "Protos").path()
        let files = try FileManager.default.contentsOfDirectory(atPath: "\(protos)/apus/v1")
            .filter { $0.hasSuffix(".proto") }.map { "\(protos)/apus/v1/\($0)" }
        try Self.run(["protoc", "-I", protos, "--python_out=."] + files, in: folder)
        // Those before them show the package apus-push, whose own tests run them.
        let blocks = try Article(Self.publishing).blocks("python").suffix(2).map(\.code)
        try #require(blocks.count == 2)
        let python = Article.root.appending(path: ".build/python/bin/python3").path()
        try blocks[0].write(toFile: "\(folder)/publish.py", atomically: true, encoding: .utf8)
        try await RedisServer.with { server in
            let output = try Self.run(
                [python, "publish.py"],
                in: folder,
                ["APUS_REDIS_URL": server.tcpURL],
            )
            let id = output.trimmingCharacters(in: .whitespacesAndNewlines)
            let key = "\(Keyspace().tag(shard: 0))in:bulk"
            let entries = try await server.command("XRANGE", .text(key), "-", "+").root
            #expect(entries.count == 1)
            let fields = try #require(entries.element(0)?.element(1))
            #expect(fields.element(0)?.string == "m")
            let command = try SendCommand.decode(try #require(fields.element(1)?.bytes))
            #expect(command.id == id)
            #expect(command.app == "demo")
            #expect(command.target == .topic("news"))
            #expect(command.notification.title == "Swifts are back")
            #expect(command.notification.kind == .alert)
            #expect(command.publishedAtNanoseconds > 0)
        }

        let node = try #require(try Article(Self.publishing).blocks("javascript").first).code
        try Self.checkReceivers(python: blocks[1], node: node, in: folder)
    }

    /// Runs the receivers of the article on a genuine request, on one with another body, and on one of another time.
    private static func checkReceivers(python: String, node: String, in folder: String) throws {
        let seconds = Int64(Date().timeIntervalSince1970)
        let (secret, body) = ("a secret of thirty-two bytes, no less", #"{"receipts":[]}"#)
        func signature(_ key: String) -> String {
            let code = HMACSHA256.authenticate(Array("1/2-0/1.\(seconds).\(body)".utf8), key: Array(key.utf8))
            return "v1," + Data(code).base64EncodedString()
        }
        // An older secret's signature stands beside that of the one that this receiver has.
        let signatures = signature(String(repeating: "older", count: 8)) + " " + signature(secret)
        func headers(_ seconds: Int64) -> String {
            #"{"webhook-id": "1/2-0/1", "webhook-timestamp": "\#(seconds)", "webhook-signature": "\#(signatures)"}"#
        }
        let cases = [(body, seconds), (body + " ", seconds), (body, seconds - 1)]
        let inPython = cases.map { "print(is_genuine(b'\(secret)', \(headers($0.1)), b'\($0.0)'))\n" }.joined()
        try (python + inPython).write(toFile: "\(folder)/verify.py", atomically: true, encoding: .utf8)
        #expect(try Self.run(["python3", "verify.py"], in: folder) == "True\nFalse\nFalse\n")
        let inNode = cases.map { "console.log(isGenuine('\(secret)', \(headers($0.1)), Buffer.from('\($0.0)')));\n" }
            .joined()
        try (node + inNode).write(toFile: "\(folder)/verify.mjs", atomically: true, encoding: .utf8)
        guard FileManager.default.isExecutableFile(atPath: "/usr/bin/node") else { return }
        #expect(try Self.run(["/usr/bin/node", "verify.mjs"], in: folder) == "true\nfalse\nfalse\n")
    }

    @Test func `The Swift publisher works as described`() async throws {
        try await Fleet.with { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            _ = try await fleet.register(1, user: { _ in "ada" })
            let url = fleet.redisURL
            let publisher = try await Publisher(redis: url)
            var notification = Notification()
            notification.title = "Your code is 493 021"
            let command = SendCommand(app: "demo", target: .users(["ada"]), notification: notification)
            let publication = try await publisher.publish(command, lane: .express)
            let receipt = try await publisher.finalReceipt(of: publication, within: .seconds(10))
            #expect(receipt.planned == 1)
            func publishPatiently(_ command: SendCommand) async throws -> Publication {
                do {
                    return try await publisher.publish(command)
                } catch {
                    guard error.code == .unavailable else { throw error }
                    return try await publisher.publish(error.command ?? command, within: .seconds(60))
                }
            }
            #expect(try await !publishPatiently(command).isDuplicate)
            await publisher.close()
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
        let own = try String(contentsOfFile: #filePath, encoding: .utf8).split(separator: "\n")
            .map { $0.trimmingCharacters(in: .whitespaces) }
        for (path, count) in [("README.md", 1), (Self.publishing, 2)] {
            let blocks = try Article(path).blocks("swift").prefix(count)
            try #require(blocks.count == count)
            for line in blocks.map(\.code).joined(separator: "\n").split(separator: "\n") {
                let line = line.replacing("\"redis://127.0.0.1:6379\"", with: "url")
                    .trimmingCharacters(in: .whitespaces)
                #expect(own.contains(line), "\(path): \(line)")
            }
        }
    }
}
