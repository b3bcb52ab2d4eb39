import Foundation

/// The `openssl` command, as an independent opinion.
enum OpenSSLTool {
    struct Failure: Error {
        let arguments: [String]
        let errors: String
    }

    struct Output {
        let bytes: [UInt8]
        let errors: String

        var text: String { String(decoding: self.bytes, as: UTF8.self) }
    }

    static func process(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Bounded, so that nothing outlives a test that was killed.
        process.arguments = ["timeout", "60", "openssl"] + arguments
        return process
    }

    /// Runs it to its end; a failure is thrown unless it `mayFail`.
    @discardableResult
    static func run(_ arguments: [String], input: String = "", mayFail: Bool = false) throws -> Output {
        let process = Self.process(arguments)
        let stdin = Pipe()
        let stdout = Pipe()
        // Error text goes to a file: two pipes read one after another could block each other.
        let errors = FileManager.default.temporaryDirectory.appending(path: "apus-tls-\(UUID().uuidString)")
        try Data().write(to: errors)
        defer { try? FileManager.default.removeItem(at: errors) }
        process.standardInput = stdin
        process.standardOutput = stdout
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        try stdin.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try stdin.fileHandleForWriting.close()
        let bytes = try stdout.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let text = String(decoding: try Data(contentsOf: errors), as: UTF8.self)
        guard mayFail || process.terminationStatus == 0 else { throw Failure(arguments: arguments, errors: text) }
        return Output(bytes: Array(bytes), errors: text)
    }
}
