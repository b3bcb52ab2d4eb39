import ApusCommand
import ApusService
import ApusSimulator
import ApusTestKit
import Foundation
import Testing

@Suite struct DemoConfigurationTests {
    private struct NoSettings: ServiceSettings {
        init(_ reader: SettingsReader) {
            // Registration's own keys are its service's affair.
            _ = reader.string("registration.listen")
            _ = reader.string("registration.port_file")
        }
    }

    @Test func `The services take the configuration that is written from the simulator's files`() async throws {
        let folder = try TemporaryDirectory.make("apus-configuration")
        defer { TemporaryDirectory.remove(folder) }
        let simulator = try await Simulator.start()
        let credentials = try simulator.writeCredentials(to: "\(folder)/credentials")
        await simulator.stop()
        let json = try Data(contentsOf: URL(filePath: credentials.portsFile))
        let files = try #require(SimulatorFiles(json: Array(json)))
        #expect(files.apnsPort == simulator.addresses.apnsPort)
        let configuration = DemoConfiguration(
            redisURL: "unix:///tmp/socket",
            folder: folder,
            simulator: files,
            keyDigest: String(repeating: "0a", count: 32),
            usesStandardPorts: false,
        )
        let path = "\(folder)/apus.yaml"
        try configuration.yaml.write(toFile: path, atomically: true, encoding: .utf8)
        for service in ServiceName.allCases {
            let settings = try SettingsSource(file: path, environment: [:]).load(NoSettings.self, for: service)
            #expect(settings.common.redis.url == "unix:///tmp/socket")
            #expect(settings.common.admin.portFile == configuration.adminPortFile(service.rawValue))
            let app = try #require(settings.common.apps.first?.value)
            #expect(app.apns?.port == files.apnsPort)
            #expect(app.fcm?.tokenURL == files.tokenURI)
            #expect(app.auth.apiKeys["demo"]?.role == .register)
        }
    }

    @Test func `The standard ports are those of the services`() {
        for service in DemoConfiguration.services {
            #expect(ServiceName(rawValue: service.name)?.adminPort == service.port)
        }
        #expect(DemoConfiguration.services.count == ServiceName.allCases.count)
    }

    @Test func `A file that is half written is none`() {
        #expect(SimulatorFiles(json: Array(#"{"host":"127.0.0.1","#.utf8)) == nil)
        #expect(SimulatorFiles(json: Array(#"{"host":"127.0.0.1"}"#.utf8)) == nil)
    }

    @Test func `Missing programs are named, with what to do`() {
        #expect {
            _ = try DemoPrograms(folder: "/nowhere")
        } throws: { error in
            "\(error)".contains("apus-dispatcher") && "\(error)".contains("Scripts/demo")
        }
    }
}
