public import ApusMetrics
internal import FoundationEssentials

extension BuildInformation {
    /// The version of all programs of the package.
    public static let packageVersion = "0.1.0"
    /// The environment variable in which an image and the units of a package carry the revision that they were built from.
    static let revisionVariable = "APUS_REVISION"
    /// The version with the revision, if that is known, such as `0.1.0+1a2b3c4`: builds of the same version are told apart by it.
    package static let versionWithRevision: String = {
        let revision = Self.revision.filter { !$0.isWhitespace }
        return revision.isEmpty || revision == Self.unknown ? Self.packageVersion : "\(Self.packageVersion)+\(revision)"
    }()

    private static let unknown = "unknown"
    private static var revision: String { ProcessInfo.processInfo.environment[Self.revisionVariable] ?? Self.unknown }

    /// Returns the information of the running build.
    public static func current(_ service: ServiceName) -> BuildInformation {
        BuildInformation(
            service: service.programName,
            version: self.packageVersion,
            revision: self.revision,
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
