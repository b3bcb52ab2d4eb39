import ApusTestKit
import Foundation
import Testing

/// Runs the tests of the Python package `apus-push` with the programs that were built with these tests.
///
/// `Scripts/setup` installs what it needs into `.build/python`.
@Suite(.serialized) struct PythonPackageTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let package = Self.root.appending(path: "Scripts/python/apus-push")

    /// Runs a module of Python's in the package's folder; its exit code and all that it wrote.
    private func run(_ arguments: String...) throws -> (code: Int32, output: String) {
        let python = Self.root.appending(path: ".build/python/bin/python3").path()
        try #require(
            FileManager.default.isExecutableFile(atPath: python),
            "\(python) is not there: Scripts/setup makes it"
        )
        let folder = try TemporaryDirectory.make("apus-python-package")
        defer { TemporaryDirectory.remove(folder) }
        let file = "\(folder)/output"
        try Data().write(to: URL(filePath: file))
        let output = try FileHandle(forWritingTo: URL(filePath: file))
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/timeout")
        process.arguments = ["600", python, "-B", "-m"] + arguments
        process.currentDirectoryURL = Self.package
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APUS_") }
            .merging([
                "APUS_PROGRAMS": programs.path(), "PYTHONPATH": "src:tests", "MYPY_CACHE_DIR": "\(folder)/mypy",
            ]) { _, own in own }
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return (process.terminationStatus, try String(contentsOfFile: file, encoding: .utf8))
    }

    @Test(.timeLimit(.minutes(12)))
    func `The package passes its own tests, none skipped but for what is not there`()
        throws
    {
        let (code, output) = try self.run("unittest", "discover", "-s", "tests", "-v")
        #expect(code == 0, "\(output.suffix(6_000))")
        let count = output.firstMatch(of: /Ran ([0-9]+) tests/).flatMap { Int($0.1) }
        #expect((count ?? 0) >= 50)
        let skipped = output.matches(of: /skipped '([^']*)'/).map { String($0.1) }
        #expect(Set(skipped).isSubset(of: ["this Redis has WAITAOF", "node is not there", "javac is not there"]))
    }

    @Test(.timeLimit(.minutes(5))) func `The package's types are complete by mypy's strict rules`() throws {
        let (code, output) = try self.run("mypy", "--strict", "src", "tests")
        #expect(code == 0, "\(output)")
    }
}
