import ApusCore
import ApusTestKit
import Foundation

/// `apus` as a script meets it.
enum OperatorProgram {
    /// Holds the output and the exit code of a run.
    struct Answer {
        let code: Int32
        let output: [UInt8]
        let talk: String

        var lines: [String] { String(decoding: self.output, as: UTF8.self).split(separator: "\n").map(String.init) }
        var json: JSONValue? { try? JSONValue(parsing: self.output, bytesMax: 1 << 20) }
    }

    /// Runs it to its end.
    ///
    /// - Parameters:
    ///   - program: another program beside it.
    ///   - input: what it reads.
    ///   - outputFile: the file that its data goes to; nil for one of this run, which the answer has.
    ///   - environment: variables beside those of the tests; none of the tests' own begins with APUS_.
    static func run(
        _ arguments: [String],
        input: [UInt8] = [],
        outputFile: String? = nil,
        environment: [String: String] = [:],
        program: String = "apus",
    ) throws -> Answer {
        let folder = try TemporaryDirectory.make("apus-operator")
        defer { TemporaryDirectory.remove(folder) }
        // Files on all sides: pipes would have to be read while they are written.
        let (taken, given, said) = ("\(folder)/in", "\(folder)/out", "\(folder)/err")
        try Data(input).write(to: URL(filePath: taken))
        for file in [given, said] { try Data().write(to: URL(filePath: file)) }
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: program)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APUS_") }
            // Nobody's own contexts count.
            .merging(["XDG_CONFIG_HOME": folder]) { _, own in own }
            .merging(environment) { _, own in own }
        process.standardInput = FileHandle(forReadingAtPath: taken)
        process.standardOutput = FileHandle(forWritingAtPath: outputFile ?? given)
        process.standardError = FileHandle(forWritingAtPath: said)
        try process.run()
        process.waitUntilExit()
        return Answer(
            code: process.terminationStatus,
            output: Array(try Data(contentsOf: URL(filePath: given))),
            talk: try String(contentsOfFile: said, encoding: .utf8),
        )
    }
}
