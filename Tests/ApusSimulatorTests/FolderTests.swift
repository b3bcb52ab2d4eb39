import ApusSimulator
import ApusTestKit
import Foundation
import Testing

/// Tests the files that the simulator writes for clients.
@Suite struct FolderTests {
    @Test func `The port file is written last and removed first`() async throws {
        let folder = try TemporaryDirectory.make("apus-simulator-folder")
        defer { TemporaryDirectory.remove(folder) }
        var configuration = SimulatorConfiguration()
        configuration.names = ["push.test"]
        let simulator = try await Simulator.start(configuration)
        let written = try simulator.writeCredentials(to: folder)
        func age(_ path: String) throws -> Date {
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            return try #require(attributes[.modificationDate] as? Date)
        }
        for file in written.apps.compactMap(\.serviceAccountFile) + [written.authorityFile] {
            #expect(try age(file) <= age(written.portsFile))
        }
        let text = try String(contentsOfFile: written.portsFile, encoding: .utf8)
        let port = try #require(simulator.addresses.fcmPort)
        #expect(text.contains(#""host":"push.test""#) && text.contains("https://push.test:\(port)/token"))
        SimulatorCredentials.withdraw(from: folder)
        #expect(!FileManager.default.fileExists(atPath: written.portsFile))
        #expect(FileManager.default.fileExists(atPath: written.authorityFile))
        #expect(text.contains(#""control_url":"http://127.0.0.1:"#))
        // There is nothing to take away a second time.
        SimulatorCredentials.withdraw(from: folder)
        await simulator.stop()
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "push.test"), ("::", "push.test"), ("::1", "[::1]"),
        ("10.0.0.7", "10.0.0.7"),
    ])
    func `The control listener is listed by the name that reaches it`(_ controlHost: String, _ name: String) {
        let addresses = SimulatorAddresses(
            host: "push.test",
            scheme: "https",
            ports: [:],
            controlPort: 2_080,
            controlHost: controlHost,
        )
        #expect(addresses.controlURL == "http://\(name):2080")
    }
}
