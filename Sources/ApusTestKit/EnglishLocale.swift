internal import Foundation

/// A locale in whose order of texts "a" comes before "B": not that of their bytes.
package final class EnglishLocale: Sendable {
    private let folder: TemporaryFolder

    /// Makes the locale from the definitions of Debian's package `locales`.
    ///
    /// - Throws: an error when `localedef` or the definitions are not there.
    package init() throws {
        self.folder = try TemporaryFolder()
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/localedef")
        process.arguments = ["-i", "en_US", "-f", "UTF-8", "\(self.folder.path)/en_US.UTF-8"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw RedisServerError("localedef cannot make en_US.UTF-8: install the package locales")
        }
    }

    /// The environment variables of a process that uses it. The locale is there as long as this object.
    package var environment: [String: String] { ["LOCPATH": self.folder.path, "LC_ALL": "en_US.UTF-8"] }
}
