import ApusCore
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusConsole

/// Tests the limit of attempts to sign in.
@Suite struct SignInTests {
    @Test func `No more keys are tried at once than may be refused, and one that is valid does not count`() async throws
    {
        let (most, more) = (ConsoleResponder.signInFailuresMax, 10)
        try await RedisServer.with { server in
            let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)
            try await ServedConsole.with(server.configuration, keyspace) { installation, port in
                let now = SystemClock().now()
                _ = try await ServedConsole.signIn(to: "shop", of: installation, now: now, port: port)
                let form = ["Content-Type: application/x-www-form-urlencoded"]
                let wrong = ServedConsole.request("POST", "/sign-in", form, body: "app=shop&key=wrong&next=/")
                let answers = try await withThrowingTaskGroup(of: String.self) { group in
                    for _ in 0..<most + more {
                        group.addTask {
                            try await ServedConsole.exchange(wrong, port: port) { $0.contains("\r\n\r\n") }
                        }
                    }
                    return try await group.reduce(into: [:]) { $0[String($1.prefix(12)), default: 0] += 1 }
                }
                #expect(answers == ["HTTP/1.1 403": most, "HTTP/1.1 429": more])
            }
        }
    }
}
