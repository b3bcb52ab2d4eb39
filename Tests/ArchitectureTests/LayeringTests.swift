import Testing

/// Each of our targets and its layer; an import goes to a lower one.
private let layers: [String: Int] = [
    "CNghttp2": 0, "COpenSSL": 0, "CHiredis": 0, "CProtobufC": 0, "CYAML": 0, "CMalloc": 0, "CFuzzer": 0,
    "CApusMessages": 1, "COpenSSLSetup": 1, "CEncryptionLimit": 1, "CSendLimit": 1, "CLua": 1,
    "CVirtualTime": 1, "CApusTexts": 1,
    "ApusCore": 2, "ApusTexts": 2,
    "ApusMessages": 3, "ApusMetrics": 3, "ApusTLS": 3, "ApusYAML": 3, "ApusNetwork": 3,
    "ApusHTTP2": 4, "ApusRedis": 4,
    "ApusStore": 5, "ApusStreams": 5, "ApusService": 5,
    "ApusInstallation": 6, "ApusProviders": 6,
    // A message of FCM's carries one of APNs': its target goes by the other's rules.
    "ApusRegistration": 7, "ApusDispatcher": 7, "ApusFeedback": 7, "ApusPublisher": 7, "ApusAPNs": 7,
    "ApusWebPush": 7,
    "ApusSimulator": 8, "ApusTestKit": 8, "ApusDashboards": 8, "ApusTerminal": 8, "ApusFCM": 8,
    "ApusLab": 9, "ApusBuiltInProviders": 9, "ApusCommand": 9, "ApusFleet": 9,
    "ApusProviderCommands": 10, "ApusConsole": 10, "ApusFuzzing": 10,
    "ApusSimulation": 10,
    "apus-registration": 11, "apus-dispatcher": 11, "apus-feedback": 11, "apus": 11, "apus-lab": 11,
    "apus-console": 11, "apus-fuzz": 11, "apus-fleet": 11,
]

/// The folders of the big targets, in order: a file uses types of its own folder and of those before it.
private let folders: [String: [String]] = [
    "ApusCommand": [
        "Audiences", "Configuration", "Control", "Devices", "Stores", "Credentials", "Sending", "Doctor", "Streams",
    ],
    "ApusConsole": ["Page", "Views", "Server"],
    // The empty name is the target's own files, outside of its folders.
    "ApusCore": ["", "JSON"],
    "ApusDashboards": ["Catalogue", "Grafana", "Rules", "Pages", "Console", ""],
    "ApusDispatcher": [
        "Telemetry", "Control", "Intake", "Plan", "Resolve", "Send", "Settle", "DryRun", "Service",
    ],
    "ApusFeedback": ["", "Guard", "Webhooks", "Service"],
    "ApusFleet": ["Model", "Server", "Differential"],
    "ApusHTTP2": ["Protocol", "Request", "Client", "Server", "Channel"],
    "ApusLab": ["HTTP", "LocalCluster", "Load", "Scenarios", "Demo", "Drills", "Benchmarks"],
    "ApusMessages": ["", "Codec"],
    "ApusProviders": ["Notification", "Answers", "Gateway", "Provider"],
    "ApusRedis": ["Engine", "Configuration", "Channel", "Keyspace", "Topology", "Client"],
    "ApusRegistration": ["", "Auth", "HTTP", "Devices", "Events", "Sends", "Stream", "Upkeep", "Service"],
    "ApusService": ["Tracing", "Settings", "Logging", "Admin", "Redis", "Lifecycle"],
    "ApusSimulation": ["Machine", "Run"],
    "ApusStore": ["", "History", "Audience", "Upkeep"],
    "ApusStreams": ["", "Consumer"],
    "ApusTLS": ["Crypto", "Engine", "Channel"],
]

/// The one Swift target that may import each C module.
private let importers: [String: String] = [
    "CNghttp2": "ApusHTTP2", "COpenSSL": "ApusTLS", "COpenSSLSetup": "ApusTLS", "CHiredis": "ApusRedis",
    "CEncryptionLimit": "ApusLab", "CSendLimit": "ApusLab", "CApusMessages": "ApusMessages",
    "CProtobufC": "ApusMessages", "CYAML": "ApusYAML", "CMalloc": "ApusService", "CLua": "ApusFleet",
    "CFuzzer": "apus-fuzz",
    "CVirtualTime": "ApusSimulation", "CApusTexts": "ApusTexts",
]

@Suite struct LayeringTests {
    @Test func `Every import of ours points down`() throws {
        let files = try SourceTree.swiftFiles()
        #expect(files.count > 50)
        for file in files {
            let layer = try #require(layers[file.target], "\(file.target) has no layer: add it to the table")
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), let below = layers[module] else { continue }
                #expect(below < layer, "\(file.path) imports \(module), which is not below \(file.target)")
            }
        }
    }

    /// The simulator's providers are found by the numbers of their routes, which the providers themselves declare, and the commands of a
    /// provider are parts of commands for all of them (`apus device import-apns`): circles by design.
    @Test func `A target of 3,000 lines has its folders in the table`() throws {
        let targets = Dictionary(grouping: try SourceTree.swiftFiles(), by: \.target)
        for (target, files) in targets where !["ApusSimulator", "apus"].contains(target) {
            let isBig = files.reduce(0) { $0 + $1.lines.count } >= 3_000
            let hasFolders = Set(files.map(\.folder)).count > 1
            #expect(!isBig || !hasFolders || folders[target] != nil, "\(target) is big: give its folders an order")
        }
    }

    @Test(arguments: folders.keys.sorted())
    func `A folder of a big target uses types of earlier folders only`(_ target: String) throws {
        let order = try #require(folders[target])
        let files = try SourceTree.swiftFiles().filter { $0.target == target }
        var places: [String: Int] = [:]
        for file in files {
            let place = try #require(order.firstIndex(of: file.folder), "\(file.path) is in no folder of the table")
            for type in file.declaredTypes { places[type] = place }
        }
        #expect(places.count > 10)
        for file in files {
            let place = try #require(order.firstIndex(of: file.folder))
            for (number, line) in file.lines.enumerated() {
                for word in SourceTree.words(ofCode: line) {
                    guard let other = places[word], other > place else { continue }
                    Issue.record("\(file.path):\(number + 1) uses \(word) of the later folder \(order[other])")
                }
            }
        }
    }

    @Test func `A C module has one Swift importer, which does not re-export it`() throws {
        for file in try SourceTree.swiftFiles() {
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), let importer = importers[module] else { continue }
                #expect(file.target == importer, "\(file.path) imports \(module): only \(importer) may")
                #expect(!line.hasPrefix("public"), "\(file.path) shows \(module) to others")
            }
        }
    }

    @Test func `There is no second crypto library and no second HTTP/2`() throws {
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
