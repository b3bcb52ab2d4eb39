internal import FoundationEssentials
internal import Glibc

/// Finds the services' programs beside the running one, be it `apus-lab` or the tests.
package struct ServicePrograms: Hashable, Sendable {
    /// The names of all programs of a cluster.
    package static let names = ["apus-registration", "apus-dispatcher", "apus-feedback"]

    private let folder: String

    /// Finds the programs in a folder.
    ///
    /// - Throws: an error that names missing programs, and how to build them.
    package init(folder: String) throws(LocalClusterError) {
        self.folder = folder
        let missing = Self.names.filter { !FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)") }
        guard missing.isEmpty else {
            throw LocalClusterError(
                "\(missing.joined(separator: ", ")) must be in \(folder): run Scripts/demo, or swift build -c release"
            )
        }
        guard Self.isInstalled("redis-server") else {
            throw LocalClusterError("redis-server is not installed: run Scripts/setup run")
        }
    }

    /// Finds the programs beside the running one.
    package static func besideThis() throws(LocalClusterError) -> ServicePrograms {
        guard let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
            let slash = path.lastIndex(of: "/")
        else { throw LocalClusterError("cannot tell where this program is: /proc is not mounted") }
        return try ServicePrograms(folder: String(path[..<slash]))
    }

    /// Returns the path of a program.
    package func path(_ name: String) -> String { "\(self.folder)/\(name)" }

    /// The shell's command that lets the programs be called by their names.
    package var exportOfPath: String { #"export PATH="\#(self.folder):$PATH""# }

    private static func isInstalled(_ name: String) -> Bool {
        let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? "/usr/bin:/bin"
        return path.split(separator: ":").contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(name)") }
    }
}
