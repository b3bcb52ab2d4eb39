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
                var answers: [String] = []
                // None of the first ones is decided before the others are asked.
                server.suspend()
                try await withThrowingTaskGroup(of: String.self) { group in
                    for _ in 0..<most + more {
                        group.addTask {
                            try await ServedConsole.exchange(wrong, port: port) { $0.contains("\r\n\r\n") }
                        }
                    }
                    for try await answer in group {
                        answers.append(String(answer.prefix(12)))
                        if answers.count == more { server.resume() }
                    }
                }
                let expected = Array(repeating: "HTTP/1.1 429", count: more)
                #expect(answers == expected + Array(repeating: "HTTP/1.1 403", count: most))
            }
        }
    }
}
