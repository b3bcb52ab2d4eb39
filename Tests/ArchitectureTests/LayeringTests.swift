import Testing

/// Each of our targets and its floor; an import goes to a lower one.
private let floors: [String: Double] = [
    "CNghttp2": 0, "COpenSSL": 0, "CHiredis": 0, "CProtobufC": 0, "CApusMessages": 0.5,
    "ApusCore": 1, "ApusMessages": 1.5, "ApusMetrics": 1.5,
    "ApusTLS": 2, "ApusHTTP2": 2.5, "ApusRedis": 2.5,
    "ApusStore": 3, "ApusStreams": 3, "ApusProviders": 3, "ApusService": 3, "ApusInstallation": 3.5,
    "ApusRegistration": 4, "ApusDispatcher": 4, "ApusFeedback": 4, "ApusPublisher": 4,
    "ApusSimulator": 5, "ApusTestKit": 5, "ApusDashboards": 5, "ApusLoadTest": 5.3,
    "ApusCommand": 5.5,
    "apus-registration": 6, "apus-dispatcher": 6, "apus-feedback": 6, "apus": 6,
]

/// The one Swift target that may import each C module.
private let importers: [String: String] = [
    "CNghttp2": "ApusHTTP2", "COpenSSL": "ApusTLS", "CHiredis": "ApusRedis", "CApusMessages": "ApusMessages",
    "CProtobufC": "ApusMessages",
]

@Suite struct LayeringTests {
    @Test func `Every import of ours points down`() throws {
        let files = try SourceTree.swiftFiles()
        #expect(files.count > 50)
        for file in files {
            let floor = try #require(floors[file.target], "\(file.target) has no floor: add it to the table")
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), let below = floors[module] else { continue }
                #expect(below < floor, "\(file.path) imports \(module), which is not below \(file.target)")
            }
        }
    }

    @Test func `A C module has one Swift importer, and it keeps it to itself`() throws {
        for file in try SourceTree.swiftFiles() {
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), let importer = importers[module] else { continue }
                #expect(file.target == importer, "\(file.path) imports \(module): only \(importer) may")
                #expect(!line.hasPrefix("public"), "\(file.path) shows \(module) to others")
            }
        }
    }

    @Test func `No second crypto library and no second HTTP/2 come in`() throws {
        let banned: Set = [
            "NIOSSL", "Crypto", "_CryptoExtras", "CryptoExtras", "JWTKit", "NIOHTTP2", "AsyncHTTPClient",
        ]
        for file in try SourceTree.swiftFiles() {
            for line in file.lines {
                let module = SourceTree.importedModule(line) ?? ""
                #expect(!banned.contains(module), "\(file.path) imports \(module)")
            }
        }
    }
}
