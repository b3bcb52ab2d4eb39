import ApusCore
import ApusInstallation
import ApusLab
import ApusStreams
import ApusTestKit
import Testing

/// Tests that commands refuse an app that nothing has.
@Suite struct KnownAppTests {
    @Test func `A key and a send are refused for an app that neither a dispatcher nor the configuration has`()
        async throws
    {
        try await Fleet.with { fleet in
            let file = try TemporaryFolder()
            let configuration = try file.write("apus.yaml", "apps: {weather: {}}\n")
            func create(_ app: String, _ more: String...) throws -> OperatorProgram.Answer {
                let arguments = ["key", "create", "--app", app, "--role", "admin", "of-\(app)"]
                return try OperatorProgram.run(arguments + more + ["--redis", fleet.redis.url])
            }
            let routes = fleet.installation.streams.routes
            _ = try await routes.number(of: Route(app: AppID("shop"), provider: .fcm, environment: .production))
            let refused = try create("shpo")
            #expect(refused.code == 1 && refused.output.isEmpty)
            #expect(refused.talk.contains("there is no app shpo; did you mean shop?"), "\(refused.talk)")
            #expect(try create("shop").code == 0)
            #expect(try create("weather").code == 1)
            let named = try create("weather", "--config", configuration)
            #expect(named.code == 0, "\(named.talk)")
            let send = ["send", "--app", "shpo", "--topic", "news", "--title", "Hi", "--redis", fleet.redis.url]
            let unsent = try OperatorProgram.run(send)
            #expect(unsent.code == 1 && unsent.talk.contains("did you mean shop?"), "\(unsent.talk)")
        }
    }
}
