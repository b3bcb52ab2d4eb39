import Foundation
import Testing

private let analyzer = "/usr/bin/systemd-analyze"

/// The units that go with the services.
@Suite struct DeploymentTests {
    private static let folder = SourceTree.root.appending(path: "Scripts/deploy/systemd")

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: analyzer), "needs the Debian package systemd"),
        arguments: ["apus-dispatcher", "apus-feedback", "apus-registration"]
    )
    func `A service may do little, by systemd's own measure: 1.5 of 10 at most`(_ service: String) throws {
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

    @Test func `Units start programs that there are, and end them later than a drain may take`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path()).sorted()
        #expect(names == ["apus-dispatcher.service", "apus-feedback.service", "apus-registration.service"])
        for name in names {
            let unit = try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
            let program = name.replacingOccurrences(of: ".service", with: "")
            #expect(unit.contains("\nExecStart=/usr/bin/\(program) --config /etc/apus/apus.yaml\n"))
            #expect(unit.contains("\nExecPaths=/usr/bin/\(program) "))
            for line in ["Type=notify", "WatchdogSec=30", "TimeoutStopSec=45", "DynamicUser=yes"] {
                #expect(unit.contains("\n\(line)\n"), "\(name) has no \(line)")
            }
        }
    }
}
