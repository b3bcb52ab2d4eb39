import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@Suite struct RequestRateTests {
    @Test func aUserWhoAsksTooOftenWaitsAndNobodyElse() async throws {
        try await Fixture.with(settings: "  client_rate_per_second: 1") { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            var refused: Answer?
            for _ in 0..<200 where refused == nil {
                let answer = try await fixture.ask("GET", Fixture.path("d1"), key: anna)
                if answer.status != 404 { refused = answer }
            }
            let answer = try #require(refused)
            #expect(answer.status == 429)
            #expect(answer.header("retry-after") == "1")
            #expect(try member(answer, "type") == "urn:apus:problem:too-many-requests")
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: bert).status == 404)
            for _ in 0..<20 { #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404) }
            #expect(try await fixture.metrics.contains("apus_registration_rejected_total{cause=\"rate\"} 1\n"))
            try await eventually("the user may ask again") {
                try await fixture.ask("GET", Fixture.path("d1"), key: anna).status == 404
            }
        }
    }

    @Test func anAppThatAsksTooOftenHoldsNoOther() async throws {
        try await Fixture.with(settings: "  app_rate_per_second: 1") { fixture in
            var statuses: [Int] = []
            for _ in 0..<200 where statuses.last != 429 {
                statuses.append(try await fixture.ask("GET", Fixture.path("d1")).status)
            }
            #expect(statuses.last == 429)
            let news = try await fixture.ask("GET", Fixture.path("d1", app: "news"), key: Fixture.newsKey)
            #expect(news.status == 404)
        }
    }
}
