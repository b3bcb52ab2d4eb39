import ApusCommand
import ApusDispatcher
import ApusFeedback
import ApusRegistration
import ApusService
import ApusSimulator
import ApusTestKit
import Foundation
import Testing

@Suite struct DemoConfigurationTests {
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
        func check(_ common: CommonSettings, _ service: ServiceName) throws {
            #expect(common.redis.url == "unix:///tmp/socket")
            #expect(common.admin.portFile == configuration.adminPortFile(service.rawValue))
            let app = try #require(common.apps.first?.value)
            #expect(app.apns?.port == files.apnsPort)
            #expect(app.fcm?.tokenURL == files.tokenURI)
            #expect(app.auth.apiKeys["demo"]?.role == .register)
        }
        let source = SettingsSource(file: path, environment: [:])
        let registration = try source.load(RegistrationSettings.self, for: .registration)
        #expect(registration.own.portFile == configuration.registrationPortFile)
        try check(registration.common, .registration)
        try check(try source.load(DispatcherSettings.self, for: .dispatcher).common, .dispatcher)
        try check(try source.load(FeedbackSettings.self, for: .feedback).common, .feedback)
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
