internal import FoundationEssentials
internal import Glibc

/// Returns the reason why a path does not lead to a regular file that the process may read, in the system's words; nil when it does.
package func fileProblem(_ path: String) -> String? {
    guard unsafe access(path, R_OK) == 0 else { return SystemErrorText.words(errno) }
    let resolved = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
    let attributes = try? FileManager.default.attributesOfItem(atPath: resolved)
    guard let type = attributes?[.type] as? FileAttributeType else { return SystemErrorText.words(ENOENT) }
    return type == .typeDirectory ? SystemErrorText.words(EISDIR) : nil
}

/// Returns true when something stands at a path, readable or not.
func fileExists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 || errno == EACCES }

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
