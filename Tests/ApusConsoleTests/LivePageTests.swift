import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusTestKit
import Testing

@testable import ApusConsole

/// Tests the updates of open pages.
@Suite struct LivePageTests {
    private static func request(_ method: String, _ path: String, _ headers: [String] = [], body: String = "") -> String
    {
        let fields = ["Host: localhost", "Content-Length: \(body.utf8.count)"] + headers
        return "\(method) \(path) HTTP/1.1\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n" + body
    }

    @Test func `A request for the head alone takes no place among the pages that are kept up to date`() async throws {
        BuiltInProviders.install()
        try await ServedConsole.with { _, port in
            let heads = String(repeating: Self.request("HEAD", "/live?page=/"), count: ConsoleResponder.liveMax + 1)
            let answer = try await ServedConsole.exchange(
                heads + Self.request("GET", "/live?page=/"),
                port: port
            ) { $0.contains("event: update") || $0.contains("Too many pages") }
            #expect(answer.contains("event: update"))
            #expect(answer.split(separator: "HTTP/1.1 200 OK").count == ConsoleResponder.liveMax + 2)
        }
    }

    @Test func `The updates of an open page keep no session alive`() async throws {
        BuiltInProviders.install()
        let clock = FakeClock(SystemClock().now())
        try await ServedConsole.with(clock: clock) { installation, port in
            let key = try await APIKeys(installation.client)
                .create(AppID("shop"), name: "ops", role: .admin, now: clock.now())
            let form = "app=shop&key=\(key)&next=/"
            let signedIn = try await ServedConsole.exchange(
                Self.request("POST", "/sign-in", ["Content-Type: application/x-www-form-urlencoded"], body: form),
                port: port
            ) { $0.contains("\r\n\r\n") }
            let cookie = try #require(signedIn.firstMatch(of: /apus_console=[A-Za-z0-9_-]+/)).0
            let live = Self.request("GET", "/live?page=/", ["Cookie: \(cookie)"])
            let half = SessionTable.idleMilliseconds / 2
            var steps = 0
            let updates = try await ServedConsole.exchange(live, port: port) { answer in
                // After each further update another half of the hour has passed.
                if answer.split(separator: "\n\n").count > steps + 1 {
                    steps += 1
                    clock.advance(byMilliseconds: half)
                }
                return answer.hasSuffix("0\r\n\r\n") || steps > 3
            }
            #expect(steps <= 3 && updates.hasSuffix("0\r\n\r\n"), "\(steps) updates")
        }
    }
}
