import Foundation

/// `Dashboards/` as it is committed.
enum DashboardsFolder {
    static let url = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Dashboards")

    static func text(_ path: String) throws -> String {
        try String(contentsOf: self.url.appending(path: path), encoding: .utf8)
    }

    /// Names of the files of a folder.
    static func names(_ folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: self.url.appending(path: folder).path()).sorted()
    }
}
