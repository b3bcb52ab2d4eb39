internal import FoundationEssentials
internal import Glibc

/// Where the programs are that a demo runs: beside this one.
package struct DemoPrograms: Hashable, Sendable {
    /// What it needs.
    package static let names = ["apus", "apus-registration", "apus-dispatcher", "apus-feedback"]

    private let folder: String

    /// The programs of a folder.
    ///
    /// - Throws: which are missing, and how to build them.
    package init(folder: String) throws(CommandFailure) {
        self.folder = folder
        let missing = Self.names.filter { !FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)") }
        guard missing.isEmpty else {
            throw CommandFailure(
                "\(missing.joined(separator: ", ")) must be in \(folder): run Scripts/demo, or swift build -c release"
            )
        }
    }

    /// The programs beside the running one.
    package static func besideThis() throws(CommandFailure) -> DemoPrograms {
        guard let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
            let slash = path.lastIndex(of: "/")
        else { throw CommandFailure("cannot tell where this program is: /proc is not mounted") }
        return try DemoPrograms(folder: String(path[..<slash]))
    }

    /// The path of one.
    package func path(_ name: String) -> String { "\(self.folder)/\(name)" }
}

/// Programs of the system.
enum Programs {
    /// Whether one is on the path.
    static func isInstalled(_ name: String) -> Bool {
        let folders = (Console.variable("PATH") ?? "/usr/bin:/bin").split(separator: ":")
        return folders.contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(name)") }
    }
}
