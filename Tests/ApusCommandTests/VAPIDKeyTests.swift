import ApusCore
import ApusProviderCommands
import ApusTLS
import ApusTerminal
import ApusTestKit
import Foundation
import Testing

/// VAPID keys are made, counted and retired.
@Suite("VAPID keys") struct VAPIDKeyTests {
    private let points: [[UInt8]]

    init() throws {
        self.points = try (0..<3).map { _ in try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint) }
    }

    @Test func `A key is written once, for its owner alone, and its public half is said`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/vapid.pem"
        let text = try VAPIDKeyFile.create(path)
        let key = try PrivateKey(pem: String(contentsOfFile: path, encoding: .utf8))
        #expect(key.publicKey.uncompressedPoint.map { Base64URL.encode($0) } == text)
        let mode = try #require(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
        #expect(mode & 0o777 == 0o600)
        let error = #expect(throws: (any Error).self) { try VAPIDKeyFile.create(path) }
        #expect("\(try #require(error))".contains("exists already"))
        #expect(throws: (any Error).self) { try VAPIDKeyFile.create("\(folder.path)/nowhere/vapid.pem") }
    }

    @Test func `A key may be retired when no browser has it and it is not the current one`() {
        var report = VAPIDKeyReport([("new.pem", self.points[0]), ("old.pem", self.points[1])])
        for point in [self.points[0], self.points[0], self.points[2], []] { report.count(point) }
        #expect(report.keys.map(\.devices) == [2, 0, 1] && report.unnamed == 1)
        #expect(report.obstacle(toRetiring: "old.pem") == nil)
        #expect(report.obstacle(toRetiring: Base64URL.encode(self.points[1])) == nil)
        #expect(report.obstacle(toRetiring: "new.pem")?.contains("is the current key") == true)
        #expect(report.obstacle(toRetiring: Base64URL.encode(self.points[2]))?.contains("has no key") == true)
        report.count(self.points[1])
        #expect(report.obstacle(toRetiring: "old.pem")?.contains("1 browser subscribed with old.pem") == true)
        #expect(report.table.lines.count == 5)
        #expect(report.warning?.hasPrefix("1 browser was registered without application_server_key") == true)
        #expect(VAPIDKeyReport([("new.pem", self.points[0])]).warning == nil)
    }
}
