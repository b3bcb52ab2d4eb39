import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStore
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

    @Test func `An app that nothing has is no clean store, no empty export, and takes no devices`() async throws {
        try await Fleet.with { fleet in
            let routes = fleet.installation.streams.routes
            _ = try await routes.number(of: Route(app: AppID("shop"), provider: .fcm, environment: .production))
            func run(_ arguments: String...) throws -> OperatorProgram.Answer {
                try OperatorProgram.run(arguments + ["--redis", fleet.redis.url])
            }
            let put = ["put", "d1", "--provider", "fcm", "--token", String(repeating: "t", count: 140)]
            for app in ["shpo", "shop"] {
                let isKnown = app == "shop"
                let answers = [
                    try run("store", "check", "--app", app), try run("store", "export", "--app", app),
                    try run("store", "import", "--app", app),
                    try OperatorProgram.run(["device"] + put + ["--app", app, "--redis", fleet.redis.url]),
                ]
                for answer in answers {
                    #expect(answer.code == (isKnown ? 0 : 1), "\(answer.talk)")
                    #expect(answer.talk.contains("did you mean shop?") != isKnown, "\(answer.talk)")
                }
            }
            // Its devices prove that the app is known, even if no dispatcher has its routes.
            let device = DeviceRegistration(device: "d2", provider: .fcm, token: String(repeating: "u", count: 140))
            _ = try await fleet.installation.store.register(AppID("former"), device)
            #expect(try run("store", "check", "--app", "former").code == 0)
            #expect(try run("store", "export", "--app", "former").lines.joined().contains("\"d2\""))
        }
    }

    @Test func `An app that nothing has is no app without keys, letters, devices and sends`() async throws {
        try await Fleet.with { fleet in
            let routes = fleet.installation.streams.routes
            _ = try await routes.number(of: Route(app: AppID("shop"), provider: .fcm, environment: .production))
            for command in [
                ["key", "list"], ["audit"], ["dead", "list"], ["audience", "count", "'a' in topics"],
                ["audience", "explain", "'a' in topics"], ["sends"],
            ] {
                let unknown = try OperatorProgram.run(command + ["--app", "shpo", "--redis", fleet.redis.url])
                #expect(unknown.code == 1 && unknown.output.isEmpty, "\(command): \(unknown.lines)")
                #expect(unknown.talk.contains("there is no app shpo; did you mean shop?"), "\(unknown.talk)")
                let known = try OperatorProgram.run(command + ["--app", "shop", "--redis", fleet.redis.url])
                #expect(known.code == 0, "\(command): \(known.talk)")
            }
        }
    }

    @Test func `A full Redis is told with its cure`() async throws {
        try await Fleet.with { fleet in
            let routes = fleet.installation.streams.routes
            _ = try await routes.number(of: Route(app: AppID("shop"), provider: .fcm, environment: .production))
            _ = try await fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
            let token = String(repeating: "t", count: 140)
            for command in [
                ["send", "--app", "shop", "--topic", "news", "--title", "Hi"],
                ["device", "put", "d1", "--app", "shop", "--provider", "fcm", "--token", token],
            ] {
                let answer = try OperatorProgram.run(command + ["--redis", fleet.redis.url])
                #expect(answer.code == 1 && answer.talk.contains("give it more memory"), "\(answer.talk)")
            }
        }
    }
}
