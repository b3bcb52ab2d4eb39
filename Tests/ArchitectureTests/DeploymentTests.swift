import Foundation
import Testing

private let analyzer = "/usr/bin/systemd-analyze"

/// The units that go with the services.
@Suite struct DeploymentTests {
    private static let folder = SourceTree.root.appending(path: "Scripts/deploy/systemd")

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: analyzer), "needs the Debian package systemd"),
        arguments: ["apus-console", "apus-dispatcher", "apus-feedback", "apus-registration"]
    )
    func `Each unit's exposure is at most 1.5 of 10 by systemd's own measure`(_ service: String) throws {
        let unit = Self.folder.appending(path: "\(service).service").path()
        let process = Process()
        process.executableURL = URL(filePath: analyzer)
        process.arguments = ["security", "--offline=true", "--threshold=15", "--no-pager", unit]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
        #expect(said.contains("Overall exposure level for \(service).service"))
    }

    @Test func `Units start existing programs, and end them later than a drain may take`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path()).sorted()
        #expect(
            names == [
                "apus-console.service", "apus-dispatcher.service", "apus-feedback.service", "apus-registration.service",
            ]
        )
        for name in names {
            let unit = try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
            let program = name.replacingOccurrences(of: ".service", with: "")
            let isService = program != "apus-console"
            let options = isService ? "" : " $OPTIONS"
            #expect(unit.contains("\nExecStart=/usr/bin/\(program) --config /etc/apus/apus.yaml\(options)\n"))
            #expect(unit.contains("\nExecPaths=/usr/bin/\(program) "))
            let ofServices = ["Type=notify", "TimeoutStartSec=infinity", "WatchdogSec=30", "TimeoutStopSec=45"]
            for line in ["DynamicUser=yes", "SystemCallErrorNumber=EPERM"] + (isService ? ofServices : []) {
                #expect(unit.contains("\n\(line)\n"), "\(name) has no \(line)")
            }
        }
    }

    @Test func `Units start a program again for as long as it fails, as the article promises`() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: Self.folder.path()) {
            let unit = try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
            let sections = unit.components(separatedBy: "\n[Service]\n")
            try #require(sections.count == 2, "\(name)")
            // systemd gives up after five quick failures otherwise. In the section [Service] it would not count.
            #expect(sections[0].contains("\nStartLimitIntervalSec=0"), "\(name)")
            for line in ["Restart=on-failure", "RestartSec=2"] {
                #expect(sections[1].contains("\n\(line)\n"), "\(name) has no \(line)")
            }
        }
        let article = try Self.text("Sources/apus/apus.docc/Operations.md")
        #expect(article.contains("the units of systemd start it again every two seconds"))
    }

    @Test
    func `The article installs the package from where it is made, and has the configuration edited before it is read`()
        throws
    {
        let folder = try #require(try Self.text("Scripts/package").firstMatch(of: /\ninto=(.*)\n/)).1
        let article = try Self.text("Sources/apus/apus.docc/Operations.md")
        #expect(article.contains("\napt-get install ./\(folder)/apus_"))
        #expect(article.contains("\neditor /etc/apus/apus.yaml\napus config check\napus init\n"))
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: SourceTree.root.appending(path: path), encoding: .utf8)
    }

    private static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: SourceTree.root.appending(path: path).standardizedFileURL.path())
    }

    @Test func `The article says from which drain on units and compose file must be changed`() throws {
        let article = try Self.text("Sources/ApusService/ApusService.docc/Configuration.md")
        let row = try #require(article.firstMatch(of: /\n\| `drain_timeout` (.*)/)).1
        let drain = try #require(row.firstMatch(of: /beyond `([0-9]+)s`/).flatMap { Int($0.1) })
        // A service ends within drain_timeout and five seconds.
        let unit = "\nTimeoutStopSec="
        for (file, line) in [
            ("systemd/apus-registration.service", unit), ("systemd/apus-dispatcher.service", unit),
            ("systemd/apus-feedback.service", unit), ("compose.yaml", "\n  stop_grace_period: "),
        ] {
            #expect(try Self.text("Scripts/deploy/\(file)").contains("\(line)\(drain + 5)"), "\(file)")
            #expect(row.contains("`\(line.filter { $0.isLetter || $0 == "_" })`"))
        }
    }

    @Test func `The image copies existing files, and builds every program of an installation`() throws {
        let lines = try Self.text("Scripts/deploy/Containerfile").split(separator: "\n")
        let sources = lines.filter { $0.hasPrefix("COPY ") && !$0.hasPrefix("COPY --from") }
            .flatMap { $0.split(separator: " ").dropFirst().dropLast() }
        #expect(Set(sources) == ["Package.swift", "Sources"])
        for source in sources { #expect(Self.exists(String(source)), "\(source) is not there") }
        let programs = try #require(lines.first { $0.hasPrefix("ENV APUS_PROGRAMS=") })
        let built = programs.split(separator: "\"")[1].split(separator: " ").map(String.init)
        // The simulator has its place in tests, not beside services that hold credentials.
        let offered = try Self.text("Package.swift").matches(of: /\.executable\(name: "([^"]+)"/).map { String($0.1) }
            .filter { $0 != "apus-lab" }
        #expect(built.sorted() == offered.sorted() && built.count == 5)
    }

    @Test
    func `The image and Scripts/build-release build in the same way, with the packages that Scripts/setup installs`()
        throws
    {
        func flags(_ path: String) throws -> [String] {
            let text = try Self.text(path).replacing("\\\n", with: " ")
            let command = try #require(text.matches(of: /swift build -c release (.*?) (?:&&|>)/).first)
            return command.1.split(whereSeparator: \.isWhitespace).map(String.init)
        }
        #expect(try flags("Scripts/deploy/Containerfile") == flags("Scripts/build-release"))
        let setup = try #require(try Self.text("Scripts/setup").matches(of: /\nbuild=\(([^)]*)\)/).first)
        let image = try Self.text("Scripts/deploy/Containerfile")
        for package in setup.1.split(separator: " ") { #expect(image.contains(" \(package) "), "\(package)") }
    }

    @Test func `The compose file mounts existing files, and Prometheus scrapes where its services answer`() throws {
        let compose = try Self.text("Scripts/deploy/compose.yaml")
        // ./config is the operator's own.
        let mounts = compose.matches(of: /(\.\.?\/[^:"\s]+):\//).map { String($0.1) }.filter { $0 != "./config" }
        #expect(Set(mounts) == ["./prometheus.yml", "../../Dashboards"])
        for mount in mounts { #expect(Self.exists("Scripts/deploy/\(mount)"), "\(mount) is not there") }
        #expect(compose.contains("dockerfile: Scripts/deploy/Containerfile"))
        #expect(compose.contains("\"--hash-max-listpack-value\", \"512\""))
        let prometheus = try Self.text("Scripts/deploy/prometheus.yml")
        for (service, port) in [("registration", 9_101), ("dispatcher", 9_102), ("feedback", 9_103)] {
            #expect(compose.contains("APUS_ADMIN_LISTEN: \"0.0.0.0:\(port)\""), "\(service)")
            #expect(compose.contains("\n  \(service):\n"))
            #expect(prometheus.contains("names: [\(service)], type: A, port: \(port)"), "nobody scrapes \(service)")
        }
        for rules in prometheus.matches(of: /\/dashboards\/([^\s"\],]+)/) {
            #expect(Self.exists("Dashboards/\(rules.1)"), "\(rules.1) is not there")
        }
    }

    /// Helm's engine and the schemas of Kubernetes come from PyPI: `Scripts/setup` installs them into `.build/python`.
    @Test(.timeLimit(.minutes(5))) func `The Helm chart makes what Kubernetes knows, and what the services are`() throws
    {
        let python = SourceTree.root.appending(path: ".build/python/bin/python3").path()
        try #require(
            FileManager.default.isExecutableFile(atPath: python),
            "\(python) is not there: Scripts/setup makes it"
        )
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = ["-B", SourceTree.root.appending(path: "Scripts/deploy/helm/test_chart.py").path()]
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APUS_") }
            .merging(["APUS_PROGRAMS": programs.path()]) { _, own in own }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
        #expect(said.contains(/Ran 2[0-9] tests/))
    }
}
