// swift-tools-version: 6.2
import PackageDescription

// Targets stand in layers, and an import goes to a lower one. `ArchitectureTests` compares the imports with the layers and with the
// dependencies declared here.

let swiftSettings: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// Optimises for size instead of speed: for targets off the path of a notification, whose code runs once per command. Such a target
/// cannot be part of a library product, because SwiftPM takes no unsafe flags from a dependency.
let smallCode: [SwiftSetting] = [.unsafeFlags(["-Osize"], .when(configuration: .release))]

/// Optimises in debug builds as well: for targets in which tests spend most of their time.
let fastInTests: [SwiftSetting] = [.unsafeFlags(["-O"], .when(configuration: .debug))]

/// A library target. Every unsafe expression in it is marked.
func library(
    _ name: String,
    _ dependencies: [Target.Dependency],
    exclude: [String] = [],
    settings: [SwiftSetting] = [],
) -> Target {
    .target(
        name: name,
        dependencies: dependencies,
        exclude: exclude,
        swiftSettings: swiftSettings + [.strictMemorySafety()] + settings,
    )
}

func program(_ name: String, _ dependencies: [Target.Dependency], settings: [SwiftSetting] = []) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: swiftSettings + settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(
        name: name,
        dependencies: dependencies,
        exclude: exclude,
        swiftSettings: swiftSettings,
    )
}

let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioWebSocket: Target.Dependency = .product(name: "NIOWebSocket", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let configuration: Target.Dependency = .product(name: "Configuration", package: "swift-configuration")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore: Target.Dependency = .product(name: "HummingbirdCore", package: "hummingbird")
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")
let nioHTTPTypes: Target.Dependency = .product(name: "NIOHTTPTypes", package: "swift-nio-extras")
let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")

let package = Package(
    name: "apus",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "apus", targets: ["apus"]),
        .executable(name: "apus-lab", targets: ["apus-lab"]),
        .executable(name: "apus-registration", targets: ["apus-registration"]),
        .executable(name: "apus-dispatcher", targets: ["apus-dispatcher"]),
        .executable(name: "apus-feedback", targets: ["apus-feedback"]),
        .executable(name: "apus-console", targets: ["apus-console"]),
        .library(name: "ApusPublisher", targets: ["ApusPublisher"]),
        .library(name: "ApusSimulator", targets: ["ApusSimulator"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
        .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", exact: "0.2.0"),
    ],
    targets: [
        // C. No pkgConfig: Debian keeps the headers in /usr/include, and hiredis' .pc warns on every build.
        .systemLibrary(name: "CNghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CProtobufC", providers: [.apt(["libprotobuf-c-dev"])]),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CYAML", providers: [.apt(["libyaml-dev"])]),
        .target(
            name: "COpenSSLSetup",
            dependencies: ["COpenSSL"],
            linkerSettings: [.linkedLibrary("crypto")],
        ),
        .target(
            name: "CEncryptionLimit",
            dependencies: ["COpenSSL"],
            linkerSettings: [.linkedLibrary("crypto")],
        ),
        .target(
            name: "CSendLimit",
            dependencies: ["CHiredis", "CNghttp2", "COpenSSL"],
            linkerSettings: [
                .linkedLibrary("hiredis"), .linkedLibrary("nghttp2"), .linkedLibrary("ssl"), .linkedLibrary("crypto"),
            ],
        ),
        .target(
            name: "CApusMessages",
            dependencies: ["CProtobufC"],
            linkerSettings: [.linkedLibrary("protobuf-c")],
        ),

        // Time, randomness and the process id of a program that simulates a fleet. A program with it uses no other clock.
        .target(
            name: "CVirtualTime",
            dependencies: ["COpenSSL"],
            linkerSettings: [.linkedLibrary("crypto"), .linkedLibrary("dl")],
        ),
        // Lua as Redis embeds it, for the model of Redis that tests use.
        .target(name: "CLua", linkerSettings: [.linkedLibrary("lua5.1")]),
        // Texts of the repository that programs carry. Resources of a package would become arrays of numbers in Swift, which take long to
        // compile.
        .target(name: "CApusTexts"),

        // Words
        library("ApusCore", []),
        library("ApusTexts", ["CApusTexts"]),
        library("ApusMessages", ["ApusCore", "CApusMessages"]),
        library("ApusMetrics", ["ApusCore"]),

        // Engines
        library("ApusTLS", ["ApusCore", "COpenSSL", "COpenSSLSetup", nioCore]),
        library("ApusYAML", ["CYAML"]),
        library("ApusNetwork", [nioCore, nioPosix]),
        library("ApusHTTP2", ["CNghttp2", nioCore, nioHTTP1]),
        library("ApusRedis", ["ApusCore", "ApusTLS", "ApusNetwork", "CHiredis", nioCore, nioPosix, logging]),

        // Concepts
        library(
            "ApusStore",
            ["ApusCore", "ApusMessages", "ApusRedis", "ApusTexts", "ApusTLS"],
            exclude: ["Functions"],
        ),
        library(
            "ApusStreams",
            ["ApusCore", "ApusMessages", "ApusTexts", "ApusTLS", "ApusRedis", nioCore, logging],
            exclude: ["Functions"],
        ),
        library(
            "ApusService",
            [
                "ApusCore", "ApusMetrics", "ApusNetwork", "ApusRedis", "ApusTLS", "ApusYAML", "CMalloc", nioCore,
                nioPosix, nioHTTP1,
                logging, lifecycle, configuration, hummingbird, hummingbirdCore, httpTypes, nioHTTPTypes,
            ],
        ),
        library(
            "ApusProviders",
            [
                "ApusCore", "ApusMessages", "ApusNetwork", "ApusTLS", "ApusHTTP2", "ApusRedis", "ApusService", nioCore,
                nioPosix, logging,
            ],
        ),

        // Providers: one target each, and the list of those that programs know.
        library(
            "ApusAPNs",
            ["ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusProviders", "ApusService", nioCore, logging],
        ),
        library(
            "ApusFCM",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusProviders", "ApusService", "ApusAPNs", nioCore,
                logging,
            ],
        ),
        library(
            "ApusWebPush",
            ["ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusProviders", "ApusService", nioCore],
        ),
        library("ApusBuiltInProviders", ["ApusProviders", "ApusAPNs", "ApusFCM", "ApusWebPush"]),

        library(
            "ApusInstallation",
            ["ApusCore", "ApusMessages", "ApusMetrics", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", logging]
        ),

        // Services
        library(
            "ApusRegistration",
            [
                "ApusInstallation",
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusNetwork", "ApusRedis", "ApusStore", "ApusStreams",
                "ApusTexts", "ApusTLS", "ApusProviders", "ApusService", nioCore, nioHTTP1, nioHTTPTypes, httpTypes,
                logging,
                lifecycle, hummingbird, hummingbirdCore,
            ],
            exclude: ["openapi.json"],
        ),
        library(
            "ApusDispatcher",
            [
                "ApusInstallation",
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusStore", "ApusStreams", "ApusTLS",
                "ApusProviders", "ApusService", nioCore, nioPosix, logging, lifecycle,
            ],
        ),
        library(
            "ApusFeedback",
            [
                "ApusInstallation",
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusNetwork", "ApusRedis", "ApusStore", "ApusStreams",
                "ApusTLS", "ApusService", nioCore, nioHTTP1, logging, lifecycle,
            ],
        ),
        library(
            "ApusPublisher",
            ["ApusCore", "ApusMessages", "ApusRedis", "ApusInstallation", "ApusStreams", nioCore, nioPosix, logging]
        ),

        // Tools
        library(
            "ApusSimulator",
            [
                "ApusCore", "ApusMetrics", "ApusNetwork", "ApusTLS", "ApusHTTP2", "ApusYAML", nioCore, nioPosix,
                nioHTTP1, nioWebSocket,
            ],
        ),
        library("ApusTestKit", ["ApusCore", "ApusRedis", "ApusTLS", nioCore, nioPosix, nioHTTP1], settings: smallCode),
        library(
            "ApusDashboards",
            [
                "ApusCore", "ApusMetrics", "ApusTexts", "ApusService", "ApusRegistration", "ApusDispatcher",
                "ApusFeedback",
            ],
            exclude: ["Console/Page"],
            settings: smallCode,
        ),
        library(
            "ApusTerminal",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStreams", "ApusInstallation", "ApusService",
                "ApusPublisher", nioPosix, logging, argumentParser,
            ],
            settings: smallCode,
        ),

        // Commands
        library(
            "ApusCommand",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusProviders", "ApusService", "ApusDispatcher", "ApusRegistration", "ApusFeedback",
                "ApusTerminal", nioCore, nioPosix, logging,
            ],
            settings: smallCode,
        ),
        library(
            "ApusLab",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusPublisher", "ApusSimulator", "ApusTestKit", "ApusTerminal", "ApusWebPush", "CEncryptionLimit",
                "CSendLimit", nioCore, nioPosix, nioHTTP1, histogram, logging,
            ],
            settings: smallCode,
        ),

        library(
            "ApusProviderCommands",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusHTTP2", "ApusProviders", "ApusService", "ApusAPNs", "ApusFCM", "ApusWebPush", "ApusTerminal",
                "ApusCommand", nioCore, nioPosix, logging,
            ],
            settings: smallCode,
        ),

        library(
            "ApusConsole",
            [
                "ApusCore", "ApusMessages", "ApusTexts", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams",
                "ApusInstallation", "ApusProviders", "ApusService", "ApusDispatcher", "ApusTerminal", "ApusCommand",
                nioCore, nioPosix, logging, lifecycle, hummingbird, hummingbirdCore, httpTypes,
            ],
            exclude: ["Assets"],
            settings: smallCode,
        ),

        library(
            "ApusFuzzing",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusYAML", "ApusHTTP2", "ApusRedis", "ApusStore",
                "ApusInstallation", "ApusProviders", "ApusAPNs", "ApusFCM", "ApusWebPush", "ApusRegistration", nioCore,
            ],
            settings: smallCode,
        ),

        library(
            "ApusFleet",
            ["ApusCore", "ApusNetwork", "ApusRedis", "ApusTLS", "ApusTestKit", "CLua", nioCore, nioPosix],
            settings: fastInTests,
        ),
        library(
            "ApusSimulation",
            [
                "ApusCore", "ApusMessages", "ApusNetwork", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusService", "ApusBuiltInProviders", "ApusRegistration", "ApusDispatcher", "ApusFeedback",
                "ApusPublisher", "ApusSimulator", "ApusTestKit", "ApusCommand", "ApusFleet", "CVirtualTime", nioCore,
                logging, lifecycle,
            ],
            settings: fastInTests,
        ),

        // Programs
        program("apus-registration", ["ApusRegistration", "ApusService", "ApusStreams", "ApusBuiltInProviders"]),
        program("apus-dispatcher", ["ApusDispatcher", "ApusService", "ApusBuiltInProviders"]),
        program("apus-feedback", ["ApusFeedback", "ApusService", "ApusBuiltInProviders"]),
        program(
            "apus",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusPublisher", "ApusService", "ApusRegistration", "ApusAPNs", "ApusFCM",
                "ApusBuiltInProviders", "ApusProviderCommands",
                "ApusDashboards", "ApusTerminal", "ApusCommand", argumentParser,
            ],
            settings: smallCode,
        ),
        program(
            "apus-console",
            [
                "ApusCore", "ApusInstallation", "ApusService", "ApusBuiltInProviders", "ApusTerminal", "ApusConsole",
                argumentParser, logging, lifecycle, unixSignals,
            ],
            settings: smallCode,
        ),
        program("apus-fleet", ["ApusSimulation", argumentParser], settings: smallCode),
        program(
            "apus-lab",
            ["ApusCore", "ApusPublisher", "ApusSimulator", "ApusTerminal", "ApusLab", argumentParser],
            settings: smallCode,
        ),

        // Tests mirror targets; IntegrationTests run real redis-servers and the simulator.
        tests("ApusCoreTests", ["ApusCore"]),
        tests("ApusMessagesTests", ["ApusCore", "ApusMessages"]),
        tests("ApusMetricsTests", ["ApusCore", "ApusMetrics"]),
        tests("ApusYAMLTests", ["ApusYAML"]),
        tests("ApusTLSTests", ["ApusCore", "ApusTLS", "ApusTestKit", nioCore, nioPosix, nioEmbedded]),
        tests("ApusHTTP2Tests", ["ApusCore", "ApusHTTP2", nioCore, nioPosix, nioEmbedded]),
        tests(
            "ApusRedisTests",
            ["ApusCore", "ApusRedis", "ApusTLS", "ApusTestKit", nioCore, nioPosix, nioEmbedded, logging]
        ),
        tests(
            "ApusStoreTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusTestKit", nioCore, nioPosix,
                logging,
            ]
        ),
        tests(
            "ApusStreamsTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusStreams", "ApusTestKit",
                "ApusInstallation",
                nioCore, nioPosix, nioEmbedded, logging,
            ]
        ),
        tests(
            "ApusProvidersTests",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusProviders", "ApusAPNs", "ApusFCM",
                "ApusWebPush", "ApusTestKit",
                nioCore, nioPosix, logging,
            ]
        ),
        tests(
            "ApusServiceTests",
            [
                "ApusCore", "ApusMetrics", "ApusRedis", "ApusService", "ApusTLS", "ApusTestKit", "ApusAPNs", "ApusFCM",
                "ApusBuiltInProviders", logging, lifecycle, nioCore, nioPosix, nioEmbedded,
                nioHTTPTypes, httpTypes,
            ]
        ),
        tests(
            "ApusRegistrationTests",
            [
                "ApusBuiltInProviders", "ApusCore", "ApusInstallation", "ApusMessages", "ApusMetrics", "ApusRedis",
                "ApusRegistration", "ApusService", "ApusStore", "ApusStreams", "ApusTestKit", "ApusTexts", "ApusTLS",
                httpTypes, logging, lifecycle, nioCore, nioEmbedded, nioHTTP1, nioHTTPTypes, nioPosix,
            ]
        ),
        tests(
            "ApusDispatcherTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusProviders", "ApusStreams", "ApusDispatcher",
                "ApusAPNs", "ApusFCM", "ApusWebPush", "ApusBuiltInProviders", "ApusInstallation", "ApusService",
                "ApusStore", "ApusRedis", "ApusSimulator", "ApusTLS", "ApusTestKit", nioCore, nioPosix, logging,
            ]
        ),
        tests(
            "ApusFeedbackTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusService", "ApusStore", "ApusStreams",
                "ApusInstallation", "ApusFeedback", "ApusTestKit", "ApusTexts", "ApusTLS", nioHTTP1, nioPosix, logging,
            ],
        ),
        tests(
            "ApusSimulatorTests",
            ["ApusCore", "ApusTLS", "ApusHTTP2", "ApusSimulator", "ApusTestKit", nioCore, nioPosix],
        ),
        tests(
            "ApusInstallationTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStreams", "ApusInstallation", "ApusTestKit", nioPosix,
                logging,
            ]
        ),
        tests(
            "ApusPublisherTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusInstallation", "ApusStreams", "ApusPublisher",
                "ApusTestKit", nioPosix, logging,
            ]
        ),
        tests(
            "ApusDashboardsTests",
            ["ApusCore", "ApusMetrics", "ApusService", "ApusDashboards", "ApusTestKit"]
        ),
        tests(
            "ApusTerminalTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStreams", "ApusInstallation", "ApusPublisher",
                "ApusService", "ApusTerminal", "ApusTestKit", argumentParser,
            ]
        ),
        tests(
            "ApusCommandTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation", "ApusService",
                "ApusRegistration", "ApusDispatcher", "ApusFeedback", "ApusPublisher", "ApusSimulator", "ApusTerminal",
                "ApusCommand",
                "ApusLab", "ApusTestKit", "ApusTLS", "ApusProviders", "ApusAPNs", "ApusFCM", "ApusBuiltInProviders",
                "ApusProviderCommands", nioCore, nioPosix,
            ]
        ),
        tests(
            "ApusConsoleTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation", "ApusService",
                "ApusConsole", "ApusBuiltInProviders", "ApusTestKit", nioCore, nioPosix, logging, lifecycle,
            ]
        ),
        tests(
            "ToyProviderTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusTLS", "ApusHTTP2", "ApusRedis", "ApusStore",
                "ApusStreams",
                "ApusInstallation", "ApusProviders", "ApusService", "ApusRegistration", "ApusDispatcher",
                "ApusFeedback",
                "ApusPublisher", "ApusTestKit", nioCore, nioPosix, logging, lifecycle,
            ]
        ),
        tests(
            "ApusLabTests",
            ["ApusCore", "ApusMessages", "ApusStreams", "ApusSimulator", "ApusTerminal", "ApusLab"]
        ),
        tests(
            "IntegrationTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusSimulator", "ApusCommand",
                "ApusPublisher", "ApusService", "ApusBuiltInProviders",
                "ApusLab", "ApusTestKit", "ApusDashboards", "ApusInstallation", "ApusTLS", nioCore, nioPosix, logging,
                "apus", "apus-lab", "apus-dispatcher", "apus-feedback", "apus-registration", "apus-console",
            ],
        ),
        tests("ApusFuzzingTests", ["ApusCore", "ApusFuzzing"], exclude: ["Corpus"]),
        tests(
            "ApusFleetTests",
            [
                "ApusCore", "ApusFleet", "ApusInstallation", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams",
                "ApusTestKit", nioPosix, logging,
            ],
        ),
        tests("ArchitectureTests", []),
    ],
)

// Builds these programs and nothing else, all of them in one go: Scripts/build-release says which.
// Only Scripts/fuzz links libFuzzer, whose loop this program runs.
if Context.environment["APUS_PROGRAMS"] == "apus-fuzz" {
    package.targets += [
        .systemLibrary(name: "CFuzzer"),
        program("apus-fuzz", ["ApusFuzzing", "CFuzzer"], settings: smallCode),
    ]
}
if let programs = Context.environment["APUS_PROGRAMS"] {
    package.keepOnly(Set(programs.split(separator: " ").map(String.init)))
}

extension Package {
    /// Leaves out every product and target that these programs do not need.
    func keepOnly(_ programs: Set<String>) {
        var needed = programs
        var waiting = Array(programs)
        while let name = waiting.popLast() {
            for case .byNameItem(let target, _) in self.targets.first(where: { $0.name == name })?.dependencies ?? []
            where needed.insert(target).inserted {
                waiting.append(target)
            }
        }
        self.targets.removeAll { !needed.contains($0.name) }
        self.products.removeAll { !programs.contains($0.name) }
    }
}
