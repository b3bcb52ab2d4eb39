import ApusCore
import ApusTerminal
import Testing

@testable import ApusCommand
@testable import ApusStreams

@Suite struct RouteControlReportTests {
    @Test func `A refused topic is named with the provider's word, beside what else holds the route`() throws {
        var state = RouteState()
        state.refusedSubroutes = [
            "com.example.app.voip": "TopicDisallowed", "broadcasts of com.example.app": "TopicMismatch",
        ]
        let row = RouteControlReport.Row(route: "shop/apns/production", state: state)
        #expect(row.json["paused"] == false)
        #expect(
            row.json["refused_subroutes"] == [
                "broadcasts of com.example.app": "TopicMismatch", "com.example.app.voip": "TopicDisallowed",
            ]
        )
        let text = RouteControlReport.table([row]).lines.joined()
        #expect(text.contains("messages for com.example.app.voip wait: the provider answers TopicDisallowed"))
        #expect(text.contains("messages for broadcasts of com.example.app wait: the provider answers TopicMismatch"))
        #expect(
            RouteControlReport.table([.init(route: "shop/fcm/production", state: RouteState())]).lines.joined()
                .contains("not held back")
        )
    }

    @Test func `Nothing is told of a route whose shard does not answer, but that`() {
        var row = RouteControlReport.Row(route: "shop/fcm/production", state: RouteState())
        row.isReachable = false
        #expect(row.json == ["route": "shop/fcm/production", "unreachable": true])
        let lines = RouteControlReport.table([row]).lines
        #expect(lines.count == 2 && lines[1].hasSuffix("its shard does not answer"))
        #expect(Diagnosis.routes([row]).isEmpty)
    }

    @Test func `A route of a copy is no concern unless a dispatcher tells of it, because it may have been removed`() {
        let route = NumberedRoute(
            number: RouteNumber(1),
            name: "shop/fcm/production",
            isConfigurationKnown: false
        )
        var row = RouteControlReport.Row(route, RouteState(), nil)
        row.state.stop = .byOperator
        #expect(row.json["configuration_unknown"] == true)
        #expect(row.condition.hasSuffix(" (unknown whether it is still configured)"))
        let findings = Diagnosis.routes([row])
        #expect(findings.map(\.verdict) == [.warn] && findings[0].detail.contains("their list does not answer"))
        row.failure = FailingRoute(route: row.route, milliseconds: 130_000, word: "InternalServerError")
        #expect(Diagnosis.routes([row]).contains { $0.subject == row.route && $0.verdict == .warn })
    }

    @Test func `A missing route is told in words`() throws {
        #expect(RouteControlReport.lines([], of: nil) == ["no dispatcher has made a route yet"])
        #expect(RouteControlReport.lines([], of: try AppID("shop"))[0].hasPrefix("shop has no route: "))
        let row = RouteControlReport.Row(route: "shop/fcm/production", state: RouteState())
        #expect(RouteControlReport.lines([row], of: nil) == RouteControlReport.table([row]).lines)
    }
}
