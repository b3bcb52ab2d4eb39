// swift-tools-version: 6.2
import PackageDescription

// Layers, top to bottom: programs, tools, services, concepts, engines, words, C. An import points down only;
// `ArchitectureTests` reads the imports and holds every target to its place.

let swiftSettings: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// A library of ours: every unsafe step in it says so.
func library(
    _ name: String,
    _ dependencies: [Target.Dependency],
    exclude: [String] = [],
    resources: [Resource]? = nil,
) -> Target {
    .target(
        name: name,
        dependencies: dependencies,
        exclude: exclude,
        resources: resources,
        swiftSettings: swiftSettings + [.strictMemorySafety()],
    )
}

func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: swiftSettings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource]? = nil) -> Target {
    .testTarget(
        name: name,
        dependencies: dependencies,
        resources: resources,
        swiftSettings: swiftSettings,
    )
}

let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let configuration: Target.Dependency = .product(name: "Configuration", package: "swift-configuration")
let yams: Target.Dependency = .product(name: "Yams", package: "Yams")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")

let package = Package(
    name: "apus",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "apus", targets: ["apus"]),
        .executable(name: "apus-registration", targets: ["apus-registration"]),
        .executable(name: "apus-dispatcher", targets: ["apus-dispatcher"]),
        .executable(name: "apus-feedback", targets: ["apus-feedback"]),
        .library(name: "ApusPublisher", targets: ["ApusPublisher"]),
        .library(name: "ApusSimulator", targets: ["ApusSimulator"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(
            url: "https://github.com/apple/swift-configuration",
            from: "1.4.0",
            traits: [.defaults, "YAML"],
        ),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // 0 C. No pkgConfig: Debian keeps the headers in /usr/include, and hiredis' .pc warns on every build.
        .systemLibrary(name: "CNghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CProtobufC", providers: [.apt(["libprotobuf-c-dev"])]),
        .target(
            name: "CApusMessages",
            dependencies: ["CProtobufC"],
            linkerSettings: [.linkedLibrary("protobuf-c")],
        ),

        // 1 Words
        library("ApusCore", []),
        library("ApusMessages", ["ApusCore", "CApusMessages", "CProtobufC"]),
        library("ApusMetrics", ["ApusCore"]),

        // 2 Engines
        library("ApusTLS", ["ApusCore", "COpenSSL", nioCore]),
        library("ApusHTTP2", ["ApusCore", "CNghttp2", nioCore]),
        library("ApusRedis", ["ApusCore", "ApusTLS", "CHiredis", nioCore, nioPosix, logging]),

        // 3 Concepts
        library(
            "ApusStore",
            ["ApusCore", "ApusMessages", "ApusRedis", "ApusTLS"],
            resources: [.embedInCode("Functions")]
        ),
        library(
            "ApusStreams",
            ["ApusCore", "ApusMessages", "ApusTLS", "ApusRedis", nioCore, logging],
            resources: [.embedInCode("Functions")]
        ),
        library(
            "ApusProviders",
            ["ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusRedis", nioCore, nioPosix, logging],
        ),
        library(
            "ApusService",
            [
                "ApusCore", "ApusMetrics", "ApusRedis", "ApusTLS", nioCore, nioPosix, nioHTTP1, logging,
                lifecycle, configuration, yams, hummingbird,
            ],
        ),

        library(
            "ApusInstallation",
            ["ApusCore", "ApusMessages", "ApusMetrics", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", logging]
        ),

        // 4 Services
        library(
            "ApusRegistration",
            [
                "ApusInstallation",
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusStore", "ApusStreams", "ApusTLS",
                "ApusService", nioCore, nioPosix, logging, lifecycle, hummingbird,
            ],
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
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusStore", "ApusStreams", "ApusTLS",
                "ApusService", nioCore, nioHTTP1, nioPosix, logging, lifecycle,
            ],
        ),
        library(
            "ApusPublisher",
            ["ApusCore", "ApusMessages", "ApusRedis", "ApusInstallation", "ApusStreams", nioCore, nioPosix, logging]
        ),

        // 5 Tools
        library(
            "ApusSimulator",
            ["ApusCore", "ApusMetrics", "ApusTLS", "ApusHTTP2", nioCore, nioPosix, nioHTTP1, logging, yams],
            exclude: ["README.md"],
        ),
        library(
            "ApusLoadTest",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusPublisher", "ApusRedis", "ApusInstallation", "ApusStreams",
                "ApusStore", "ApusSimulator", "ApusTestKit", nioCore, nioPosix, nioHTTP1, histogram, logging,
            ],
        ),
        library(
            "ApusDashboards",
            ["ApusCore", "ApusMetrics", "ApusService", "ApusRegistration", "ApusDispatcher", "ApusFeedback"],
            resources: [.embedInCode("Console/Page")]
        ),
        library(
            "ApusTestKit",
            ["ApusCore", "ApusRedis", "ApusTLS", nioCore, nioPosix, nioHTTP1, logging],
        ),

        library(
            "ApusCommand",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusHTTP2", "ApusProviders", "ApusService", "ApusDispatcher", "ApusRegistration", "ApusFeedback",
                "ApusPublisher", "ApusSimulator", "ApusLoadTest", "ApusTestKit", nioCore, nioPosix, nioHTTP1, logging,
            ],
        ),

        // 6 Programs
        program("apus-registration", ["ApusRegistration", "ApusService"]),
        program("apus-dispatcher", ["ApusDispatcher", "ApusService"]),
        program("apus-feedback", ["ApusFeedback", "ApusService"]),
        program(
            "apus",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation",
                "ApusPublisher", "ApusProviders", "ApusService", "ApusRegistration",
                "ApusSimulator", "ApusLoadTest", "ApusDashboards", "ApusCommand", argumentParser,
            ],
        ),

        // Tests mirror targets; IntegrationTests run real redis-servers and the simulator.
        tests("ApusCoreTests", ["ApusCore"]),
        tests("ApusMessagesTests", ["ApusCore", "ApusMessages"]),
        tests("ApusMetricsTests", ["ApusMetrics"]),
        tests("ApusTLSTests", ["ApusCore", "ApusTLS", "ApusTestKit", nioCore, nioPosix, nioEmbedded]),
        tests("ApusHTTP2Tests", ["ApusCore", "ApusHTTP2", "ApusTLS", nioCore, nioPosix, nioEmbedded]),
        tests("ApusRedisTests", ["ApusCore", "ApusRedis", "ApusTLS", "ApusTestKit", nioCore, nioPosix, nioEmbedded]),
        tests(
            "ApusStoreTests",
            ["ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusTestKit", nioPosix, logging]
        ),
        tests(
            "ApusStreamsTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusStreams", "ApusTestKit",
                "ApusInstallation",
                nioCore, nioPosix, logging,
            ]
        ),
        tests(
            "ApusProvidersTests",
            [
                "ApusCore", "ApusMessages", "ApusTLS", "ApusHTTP2", "ApusProviders", "ApusTestKit", nioCore, nioPosix,
                logging,
            ]
        ),
        tests(
            "ApusServiceTests",
            [
                "ApusCore", "ApusMetrics", "ApusRedis", "ApusService", "ApusTLS", "ApusTestKit", logging, lifecycle,
                nioCore, nioPosix,
            ]
        ),
        tests(
            "ApusRegistrationTests",
            [
                "ApusCore", "ApusInstallation", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusRegistration",
                "ApusService", "ApusStore", "ApusStreams", "ApusTestKit", "ApusTLS", logging, lifecycle, nioCore,
                nioHTTP1, nioPosix,
            ]
        ),
        tests(
            "ApusDispatcherTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusProviders", "ApusStreams", "ApusDispatcher",
                "ApusStore", "ApusRedis", "ApusSimulator", "ApusTLS", "ApusTestKit", nioCore, nioPosix, logging,
            ]
        ),
        tests(
            "ApusFeedbackTests",
            [
                "ApusCore", "ApusMessages", "ApusMetrics", "ApusRedis", "ApusService", "ApusStore", "ApusStreams",
                "ApusInstallation", "ApusFeedback", "ApusTestKit", "ApusTLS", nioCore, nioHTTP1, nioPosix, logging,
            ],
        ),
        tests(
            "ApusSimulatorTests",
            ["ApusCore", "ApusTLS", "ApusHTTP2", "ApusSimulator", "ApusTestKit", nioCore, nioPosix],
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
        tests("ApusLoadTestTests", ["ApusCore", "ApusMessages", "ApusSimulator", "ApusLoadTest"]),
        tests(
            "ApusCommandTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusInstallation", "ApusService",
                "ApusRegistration", "ApusDispatcher", "ApusFeedback", "ApusPublisher", "ApusSimulator", "ApusCommand",
                "ApusLoadTest", "ApusTestKit", "ApusProviders",
            ]
        ),
        tests(
            "IntegrationTests",
            [
                "ApusCore", "ApusMessages", "ApusRedis", "ApusStore", "ApusStreams", "ApusProviders", "ApusService",
                "ApusPublisher", "ApusSimulator", "ApusLoadTest", "ApusTestKit", nioCore, nioPosix,
                "ApusDashboards", "ApusInstallation", "ApusTLS", "apus", "apus-dispatcher", "apus-feedback",
                "apus-registration", logging,
            ],
        ),
        tests("ArchitectureTests", []),
    ],
)
