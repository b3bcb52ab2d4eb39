import ApusAPNs
import ApusBuiltInProviders
import ApusCore
import ApusDispatcher
import ApusFCM
import ApusFeedback
import ApusLab
import ApusRegistration
import ApusService
import ApusSimulator
import ApusTestKit
import Foundation
import Testing

@Suite struct ServiceConfigurationTests {
    @Test func `The services take the configuration that a cluster writes`() async throws {
        BuiltInProviders.install()
        let folder = try TemporaryDirectory.make("apus-configuration")
        defer { TemporaryDirectory.remove(folder) }
        let simulator = try await Simulator.start()
        let credentials = try simulator.writeCredentials(to: "\(folder)/credentials")
        await simulator.stop()
        var configuration = ServiceConfiguration(
            redisURL: "unix:///tmp/socket",
            credentials: credentials,
            addresses: simulator.addresses,
        )
        configuration.eventLoops = 3
        configuration.keyDigest = String(repeating: "0a", count: 32)
        func load<Own>(
            _ own: Own.Type,
            _ service: ServiceName,
            _ settings: ServiceSettingsText = [:]
        ) throws
            -> Settings<Own>
        {
            let path = "\(folder)/\(service.rawValue).yaml"
            try configuration.yaml(service.rawValue, settings).write(toFile: path, atomically: true, encoding: .utf8)
            let settings = try SettingsSource(file: path, environment: [:]).load(own, for: service)
            let common = settings.common
            #expect(common.redis.url == "unix:///tmp/socket" && common.eventLoops == 3)
            let app = try #require(common.apps.first?.value)
            #expect(app.apns?.port == simulator.addresses.apnsPort)
            #expect(app.fcm?.baseURL == "https://127.0.0.1:\(simulator.addresses.fcmPort ?? 0)")
            #expect(app.auth.apiKeys["cluster"]?.role == .register)
            return settings
        }
        let port = ["port_file": "/tmp/port", "listen": "127.0.0.1:0"]
        #expect(try load(RegistrationSettings.self, .registration, port).own.portFile == "/tmp/port")
        #expect(try load(DispatcherSettings.self, .dispatcher, ["lease": "700ms"]).own.leaseMilliseconds == 700)
        #expect(try load(FeedbackSettings.self, .feedback, ["lease": "800ms"]).own.leaseMilliseconds == 800)
    }

    @Test func `The default ports are those of the services`() {
        for service in LocalCluster.services {
            #expect(ServiceName(rawValue: service.name)?.adminPort == service.port)
        }
        #expect(LocalCluster.services.count == ServiceName.allCases.count)
    }

    @Test func `Missing programs are named, with what to do`() {
        #expect {
            _ = try ServicePrograms(folder: "/nowhere")
        } throws: { error in
            "\(error)".contains("apus-dispatcher") && "\(error)".contains("Scripts/demo")
        }
    }
}
