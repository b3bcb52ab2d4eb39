internal import FoundationEssentials

/// Returns true when the path leads to a regular file that the process may read.
func isReadableFile(_ path: String) -> Bool {
    let resolved = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
    let attributes = try? FileManager.default.attributesOfItem(atPath: resolved)
    guard let type = attributes?[.type] as? FileAttributeType, type != .typeDirectory else { return false }
    return FileManager.default.isReadableFile(atPath: path)
}

/// Detects a change of a file without reading it. It follows links: Kubernetes swaps a link to rotate a secret.
struct FileFingerprint: Hashable, Sendable {
    private let resolvedPath: String
    private let size: Int?
    private let modified: Date?
    private let fileNumber: Int?

    init(path: String) {
        let resolved = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
        let attributes = try? FileManager.default.attributesOfItem(atPath: resolved)
        self.resolvedPath = resolved
        self.size = attributes?[.size] as? Int
        self.modified = attributes?[.modificationDate] as? Date
        self.fileNumber = attributes?[.systemFileNumber] as? Int
    }
}
