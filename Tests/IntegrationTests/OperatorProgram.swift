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

    /// A run that goes on while a test does something else.
    struct Run {
        fileprivate let process: Process
        fileprivate let folder: String

        /// True until it has ended.
        var isRunning: Bool { self.process.isRunning }

        /// The data that it has written so far.
        var output: [UInt8] { get throws { Array(try Data(contentsOf: URL(filePath: "\(self.folder)/out"))) } }

        /// The messages that it has written so far.
        var talk: String { get throws { try String(contentsOfFile: "\(self.folder)/err", encoding: .utf8) } }

        /// Interrupts it, as Ctrl-C does.
        func interrupt() { self.process.interrupt() }

        fileprivate func end() { if self.process.isRunning { self.process.terminate() } }

        /// Waits for its end.
        fileprivate func answer() throws -> Answer {
            self.process.waitUntilExit()
            return Answer(code: self.process.terminationStatus, output: try self.output, talk: try self.talk)
        }
    }

    /// Runs it to its end.
    ///
    /// - Parameters:
    ///   - program: another program beside it.
    ///   - input: what it reads.
    ///   - isPiped: true when it reads that from a pipe, where nothing can be read twice.
    ///   - outputFile: the file that its data goes to; nil for one of this run, which the answer has.
    ///   - environment: variables beside those of the tests; none of the tests' own begins with APUS_.
    static func run(
        _ arguments: [String],
        input: [UInt8] = [],
        isPiped: Bool = false,
        outputFile: String? = nil,
        environment: [String: String] = [:],
        program: String = "apus",
    ) throws -> Answer {
        let folder = try TemporaryDirectory.make("apus-operator")
        defer { TemporaryDirectory.remove(folder) }
        let run = try Self.start(
            arguments,
            in: folder,
            input: input,
            isPiped: isPiped,
            outputFile: outputFile,
            environment: environment,
            program: program,
        )
        return try run.answer()
    }

    /// Runs it while `body` runs, and ends it then if it has not ended by itself.
    static func running(
        _ arguments: [String],
        program: String = "apus",
        _ body: (Run) async throws -> Void,
    ) async throws -> Answer {
        let folder = try TemporaryDirectory.make("apus-operator")
        defer { TemporaryDirectory.remove(folder) }
        let run = try Self.start(arguments, in: folder, program: program)
        do {
            try await body(run)
        } catch {
            run.end()
            throw error
        }
        run.end()
        return try run.answer()
    }

    private static func start(
        _ arguments: [String],
        in folder: String,
        input: [UInt8] = [],
        isPiped: Bool = false,
        outputFile: String? = nil,
        environment: [String: String] = [:],
        program: String,
    ) throws -> Run {
        // Files on all sides: pipes would have to be read while they are written.
        let (taken, given, said) = ("\(folder)/in", "\(folder)/out", "\(folder)/err")
        try Data(input).write(to: URL(filePath: taken))
        for file in [given, said] { try Data().write(to: URL(filePath: file)) }
        let process = Process()
        let executable = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: program)
        process.executableURL = isPiped ? URL(filePath: "/bin/sh") : executable
        process.arguments = (isPiped ? ["-c", #"cat | "$@""#, "sh", executable.path] : []) + arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("APUS_") }
            // Nobody's own contexts count.
            .merging(["XDG_CONFIG_HOME": folder]) { _, own in own }
            .merging(environment) { _, own in own }
        process.standardInput = FileHandle(forReadingAtPath: taken)
        process.standardOutput = FileHandle(forWritingAtPath: outputFile ?? given)
        process.standardError = FileHandle(forWritingAtPath: said)
        try process.run()
        return Run(process: process, folder: folder)
    }
}
