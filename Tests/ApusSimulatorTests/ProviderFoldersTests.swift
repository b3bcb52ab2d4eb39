import Foundation
import Testing

/// A provider is a folder of the simulator and a line in its list: no other file names one.
@Suite struct ProviderFoldersTests {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/ApusSimulator")

    /// Every line of the Swift files, with its file's path.
    private static func lines() throws -> [(path: String, line: Substring)] {
        let enumerator = FileManager.default.enumerator(atPath: Self.sources.path())
        var lines: [(String, Substring)] = []
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix(".swift") else { continue }
            let text = try String(contentsOf: Self.sources.appending(path: path), encoding: .utf8)
            lines += text.split(separator: "\n").map { (path, $0) }
        }
        return lines
    }

    /// The folders with a type that imitates a provider.
    private static func folders(_ lines: [(path: String, line: Substring)]) -> Set<String> {
        Set(lines.filter { $0.line.contains(": SimulatedProvider {") }.map { String($0.path.prefix { $0 != "/" }) })
    }

    @Test func `No file outside the providers' folders names a provider, except the list`() throws {
        let lines = try Self.lines()
        let folders = Self.folders(lines)
        #expect(folders == ["APNs", "FCM", "WebPush"])
        var listed = 0
        for (path, line) in lines where !folders.contains(String(path.prefix { $0 != "/" })) {
            if path == "SimulatedProvider.swift", line.contains(/^ +Simulated\w+\.self,$/) {
                listed += 1
                continue
            }
            let names = /\.(apns|fcm|oauth|webpush)\b|"(apns|fcm|oauth|webpush)"|APNs|FCM|OAuth|Apple|Google|Firebase/
            #expect(!line.contains(names), "\(path): \(line)")
        }
        #expect(listed == folders.count, "each folder has a line in the list")
    }
}
