import ApusCore
import ApusTerminal
import Testing

@testable import ApusCommand
@testable import ApusStreams

/// Tests the sentences about what keeps a send from going on, without a server.
@Suite struct SendObstaclesTests {
    private static let services = ServiceReport(
        ["dispatcher", "feedback"].map {
            ReportedProcess(
                name: $0,
                service: $0,
                version: "1",
                startedMillisecondsAgo: 9_000,
                seenMillisecondsAgo: 1_000
            )
        }
    )

    private static func row(_ change: (inout RouteState) -> Void = { _ in }) -> RouteControlReport.Row {
        var state = RouteState()
        change(&state)
        return .init(route: "shop/apns/production", state: state)
    }

    private static func sentences(
        _ phase: SendStatus.Phase = .running,
        _ row: RouteControlReport.Row = row(),
        services: ServiceReport = services,
        due: UnixMilliseconds? = nil,
    ) -> [String] {
        var status = SendStatus(send: "order-17")
        status.phase = phase
        return SendObstacles.obstacles(status, routes: [row], services: services, due: due).map(\.sentence)
    }

    @Test func `Each reason for which a route waits is named with the route and the cure`() {
        let cases: [((inout RouteState) -> Void, [String])] = [
            ({ $0.stop = .byOperator }, ["paused by an operator", "apus resume --route shop/apns/production"]),
            (
                { $0.stop = .byGuard },
                ["mass-failure guard", "apus quarantine restore or confirm --route shop/apns/production"]
            ),
            (
                { $0.stop = .byFault(RouteFault(.configuration, "TopicDisallowed")) },
                ["TopicDisallowed", "apus resume --route"]
            ),
            (
                { $0.stop = .byFault(RouteFault(.credential, "InvalidProviderToken")) },
                ["InvalidProviderToken", "apus credentials check"]
            ),
            ({ $0.connectionFault = .init(detail: "the name is not found", milliseconds: 3_000) }, ["(3s ago)"]),
            ({ $0.thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR" }, ["THIRD_PARTY_AUTH_ERROR"]),
            ({ $0.rateLimit.pauseMilliseconds = 12_000 }, ["stopped by the provider for 12s"]),
        ]
        for (change, parts) in cases {
            let sentences = Self.sentences(.running, Self.row(change))
            #expect(sentences.count == 1 && sentences[0].hasPrefix("shop/apns/production: "), "\(sentences)")
            for part in parts { #expect(sentences[0].contains(part), "\(sentences)") }
            // The table of `apus lag` has the same words.
            let table = RouteControlReport.table([Self.row(change)]).lines.joined()
            #expect(table.contains(sentences[0].dropFirst("shop/apns/production: ".count)))
        }
    }

    @Test func `A provider that fails is named with its answer and since when`() {
        for (word, text) in [("InternalServerError", "fails with InternalServerError"), ("", "gives no answer")] {
            var row = Self.row()
            row.failure = FailingRoute(route: row.route, milliseconds: 130_000, word: word)
            let sentences = Self.sentences(.running, row)
            #expect(sentences.count == 1 && sentences[0].contains("the provider \(text), for 2m10s; "), "\(sentences)")
            let findings = Diagnosis.routes([row])
            #expect(findings.map(\.verdict) == [.fail] && findings[0].subject == row.route)
            #expect(findings[0].cure.contains("status page"))
        }
        #expect(Diagnosis.routes([Self.row()]).map(\.detail) == ["1 route, not held back"])
        #expect(Diagnosis.routes([Self.row { $0.stop = .byOperator }]).map(\.verdict) == [.warn])
    }

    @Test func `A route without a connection is named with the reason and since when, once`() {
        let reason = "cannot connect to push:443: Connection refused"
        var row = Self.row()
        row.failure = FailingRoute(route: row.route, milliseconds: 130_000, word: reason, isUnreachable: true)
        let sentences = Self.sentences(.running, row)
        #expect(sentences.count == 1 && sentences[0].contains("cannot send, for 2m10s: \(reason); "), "\(sentences)")
        #expect(Diagnosis.routes([row]).map(\.verdict) == [.fail])
        // The dispatcher that failed to connect last has told the fleet, too.
        row.state.connectionFault = .init(detail: reason, milliseconds: 3_000)
        let both = Self.sentences(.running, row)
        #expect(both.count == 1 && both[0].hasSuffix("\(reason) (3s ago)"), "\(both)")
        // A provider that fails is another matter.
        row.failure = FailingRoute(route: row.route, milliseconds: 130_000, word: "InternalServerError")
        #expect(Self.sentences(.running, row).count == 2)
    }

    @Test func `A send under way and one that is over have no obstacles`() {
        #expect(Self.sentences() == [])
        #expect(Self.sentences(.running, Self.row { $0.rateLimit.level = 0.5 }) == [])
        #expect(Self.sentences(.done, Self.row { $0.stop = .byOperator }) == [])
    }

    @Test func `A send that is paused, scheduled, or without a dispatcher says so`() {
        #expect(Self.sentences(.paused) == ["order-17: paused by an operator; apus resume order-17"])
        let due = UnixMilliseconds(seconds: 951_782_400)
        #expect(
            Self.sentences(.planning, due: due) == ["order-17: scheduled, begins at 2000-02-29T00:00:00Z"]
        )
        let alone = Self.sentences(.waiting, services: ServiceReport([]))
        #expect(alone.count == 2 && alone[0].hasPrefix("dispatcher: ") && alone[1].hasPrefix("feedback: "))
        // While the server that lists them is away, nobody knows whether they run.
        #expect(SendObstacles.obstacles(SendStatus(send: "order-17"), routes: [], services: nil) == [])
    }

    @Test func `An obstacle keeps its name while it lasts, and another reason is another obstacle`() {
        func names(seenSecondsAgo: Int64, failingSeconds: Int64, word: String = "503") -> [String] {
            let dispatcher = ReportedProcess(
                name: "d",
                service: "dispatcher",
                version: "1",
                startedMillisecondsAgo: 90_000,
                seenMillisecondsAgo: seenSecondsAgo * 1_000
            )
            var row = Self.row()
            row.failure = FailingRoute(route: row.route, milliseconds: failingSeconds * 1_000, word: word)
            var status = SendStatus(send: "order-17")
            status.phase = .running
            return SendObstacles.obstacles(status, routes: [row], services: ServiceReport([dispatcher])).map(\.id)
        }
        let names20 = names(seenSecondsAgo: 20, failingSeconds: 20)
        #expect(names20.count == 3 && Set(names20).count == 3)
        #expect(names(seenSecondsAgo: 21, failingSeconds: 21) == names20)
        #expect(names(seenSecondsAgo: 21, failingSeconds: 21, word: "500") != names20)
    }
}
