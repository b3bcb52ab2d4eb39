import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMessages
import ApusService
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusConsole

/// Tests that an admin of one app is told nothing about another.
@Suite struct OtherAppsTests {
    private static func reader(of installation: Installation, isOfWhole: Bool = false) -> ConsoleReader {
        ConsoleReader(
            installation: installation,
            configuration: SettingsSource(file: nil, environment: [:]),
            clock: SystemClock(),
            isOfWhole: isOfWhole
        )
    }

    @Test func `Nobody is asked a question about a route of another app`() async throws {
        BuiltInProviders.install()
        try await ServedConsole.with { installation, _ in
            let (shop, rival) = (try AppID("shop"), try AppID("rival"))
            let route = Route(app: rival, provider: .apns, environment: .production)
            let number = try await installation.streams.routes.number(of: route)
            try await PagesTests.quarantine(25, of: 30, on: route, number, installation)
            let reader = Self.reader(of: installation)
            for (page, action) in [(AppPage.routes, "pause"), (.quarantine, "confirm")] {
                let fields = try #require(FormFields("action=\(action)&route=\(FormFields.encoded("\(route)"))".utf8))
                let own = try await reader.confirmation(of: rival, at: .app(rival, page), fields)
                #expect(own?.consequence.lowercased().contains("device") == true, "\(action)")
                let other = try await reader.confirmation(of: shop, at: .app(shop, page), fields)
                #expect(other == nil, "\(action)")
            }
        }
    }

    @Test(arguments: [nil, "https://push.example"])
    func `Why a process is not ready is for those who see the whole installation`(_ publicURL: String?) async throws {
        BuiltInProviders.install()
        try await ServedConsole.with(publicURL: publicURL) { installation, port in
            let processes = installation.streams.processes
            try await processes.report(
                "one",
                service: "dispatcher",
                version: "1",
                uptimeMilliseconds: 1,
                problem: "rival/apns/production: the key is refused",
            )
            try await processes.report(
                "two",
                service: "feedback",
                version: "1",
                uptimeMilliseconds: 1,
                problem: nil,
                refusedConfiguration: "apps.rival.webhook: must be a URL",
                failingRoutes: [FailingRoute(route: "rival/apns/production", milliseconds: 1, word: "rival")],
            )
            let host = publicURL == nil ? "localhost" : "push.example"
            let now = SystemClock().now()
            let cookie = try await ServedConsole.signIn(to: "shop", of: installation, now: now, port: port, host: host)
            let page = try await ServedConsole.exchange(
                ServedConsole.request("GET", "/", [cookie], host: host),
                port: port
            ) { $0.contains("</html>") }
            #expect(page.contains("not ready") && page.contains("former settings"))
            #expect(page.contains("its log says why") == (publicURL != nil))
            #expect(page.contains("the key is refused") == (publicURL == nil))
            #expect(page.contains("must be a URL") == (publicURL == nil))
            #expect(page.contains("rival") == (publicURL == nil))
        }
    }
}
