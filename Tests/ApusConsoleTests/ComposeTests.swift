import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusConsole

/// Tests the form for a new send.
@Suite struct ComposeTests {
    @Test func `A form whose start is a time from now is one send, although its question is answered twice`()
        async throws
    {
        BuiltInProviders.install()
        let clock = FakeClock(SystemClock().now())
        try await ServedConsole.with(clock: clock) { installation, port in
            let route = Route(app: try AppID("shop"), provider: .apns, environment: .production)
            _ = try await installation.streams.routes.number(of: route)
            let cookie = try await ServedConsole.signIn(to: "shop", of: installation, now: clock.now(), port: port)
            let form = ServedConsole.request("GET", "/apps/shop/compose", [cookie])
            let page = try await ServedConsole.exchange(form, port: port) { $0.contains("</html>") }
            let token = try #require(page.firstMatch(of: /name="form_token" value="([^"]+)"/)).1
            let headers = [cookie, "Content-Type: application/x-www-form-urlencoded"]
            func post(_ fields: String) async throws -> String {
                let body = "form_token=\(token)&id=c1&audience=everyone&action=send&\(fields)"
                let request = ServedConsole.request("POST", "/apps/shop/compose", headers, body: body)
                return try await ServedConsole.exchange(request, port: port) { answer in
                    answer.contains("</html>") || answer.hasPrefix("HTTP/1.1 303 ") && answer.contains("\r\n\r\n")
                }
            }
            let question = try await post("title=Hi&start=2h")
            let start = try #require(question.firstMatch(of: /name="start" value="([^"]+)"/), "\(question)").1
            for _ in 0..<2 {
                let answer = try await post("title=Hi&start=\(start)&confirmed=yes")
                #expect(answer.contains("/apps/shop/sends/c1?done="), "\(answer)")
                clock.advance(byMilliseconds: 1_000)
            }
            let other = try await post("title=Hello&start=\(start)&confirmed=yes")
            #expect(other.hasPrefix("HTTP/1.1 409 ") && other.contains("<a href=\"/apps/shop/sends/c1\">"), "\(other)")
        }
    }
}
