import ApusBuiltInProviders
import ApusCore
import ApusTestKit
import Testing

@testable import ApusConsole

/// Tests the updates of open pages.
@Suite struct LivePageTests {
    @Test func `A request for the head alone takes no place among the pages that are kept up to date`() async throws {
        BuiltInProviders.install()
        try await ServedConsole.with { _, port in
            let head = ServedConsole.request("HEAD", "/live?page=/")
            let heads = String(repeating: head, count: ConsoleResponder.liveMax + 1)
            let answer = try await ServedConsole.exchange(
                heads + ServedConsole.request("GET", "/live?page=/"),
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
            let cookie = try await ServedConsole.signIn(to: "shop", of: installation, now: clock.now(), port: port)
            let live = ServedConsole.request("GET", "/live?page=/", [cookie])
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
