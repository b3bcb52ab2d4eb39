public import ApusMetrics
internal import FoundationEssentials

extension BuildInformation {
    /// The version of all programs of the package.
    public static let packageVersion = "0.1.0"
    /// The environment variable in which an image carries the revision that it was built from.
    static let revisionVariable = "APUS_REVISION"

    /// Returns the information of the running build.
    public static func current(_ service: ServiceName) -> BuildInformation {
        BuildInformation(
            service: service.programName,
            version: self.packageVersion,
            revision: ProcessInfo.processInfo.environment[self.revisionVariable] ?? "unknown",
            swiftVersion: self.compilerVersion,
        )
    }

    private static var compilerVersion: String {
        #if compiler(>=6.4)
        "6.4"
        #elseif compiler(>=6.3)
        "6.3"
        #else
        "6.2"
        #endif
    }
}
