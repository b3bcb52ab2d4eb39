import ApusTestKit
import Foundation

/// Prometheus' own checker.
enum Promtool {
    static let path = "/usr/bin/promtool"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: path)

    /// Returns promtool's complaint about some files, by name; nil when there is none.
    ///
    /// - Parameter files: laid into one folder, where it runs.
    static func complaint(_ arguments: [String], files: [String: String]) throws -> String? {
        let folder = try TemporaryDirectory.make("apus-promtool")
        defer { TemporaryDirectory.remove(folder) }
        for (name, text) in files { try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8) }
        let process = Process()
        process.executableURL = URL(filePath: self.path)
        process.arguments = arguments
        process.currentDirectoryURL = URL(filePath: folder)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return process.terminationStatus == 0 ? nil : said
    }
}
