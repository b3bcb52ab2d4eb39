import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

private let path = "\(Fixture.path("a1"))/events"

@Suite struct EventAPITests {
    @Test func eventsReachTheHomeOfTheirSend() async throws {
        try await Fixture.with { fixture in
            let anna = try Fixture.token("anna")
            let body = #"""
                {"events":[{"id":"1","send":"s1","kind":"received"},
                {"id":"2","send":"s2","kind":"action","action":"buy","at_ms":99999999999999}]}
                """#
            #expect(try await fixture.ask("POST", path, body, key: anna).status == 404)
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#, key: anna)
            let answer = try await fixture.ask("POST", path, body, key: anna)
            #expect(answer.status == 202, "\(answer.text)")
            #expect(try member(answer, "events") == 2)
            #expect(try await fixture.ask("POST", path, body, key: Fixture.token("bert")).status == 404)
            #expect(try await fixture.ask("POST", path, body, key: Fixture.publishKey).status == 403)
            let events = try await fixture.messages { $0.events }.map { try ClientEvent.decode($0) }
            #expect(Set(events.map(\.id)) == ["1", "2"])
            #expect(events.allSatisfy { $0.app == "shop" && $0.device == "a1" && $0.provider == .fcm })
            let action = try #require(events.first { $0.kind == .action })
            #expect(action.action == "buy")
            // A phone's clock that is ahead is set right.
            #expect(action.at.value < 99_999_999_999_999)
        }
    }

    @Test func aReportKeepsToItsRules() async throws {
        let event = #"{"id":"1","send":"s","kind":"opened"}"#
        let many = Array(repeating: event, count: 101).joined(separator: ",")
        let table: [(String, [String])] = [
            ("{}", ["#/events"]), (#"{"events":[1]}"#, ["#/events/0"]), (#"{"events":[\#(many)]}"#, ["#/events"]),
            (#"{"events":[{}]}"#, ["#/events/0/id", "#/events/0/send", "#/events/0/kind"]),
            (
                #"{"events":[{"id":"","send":"a b","kind":"eaten"}]}"#,
                ["#/events/0/kind", "#/events/0/id", "#/events/0/send"]
            ),
        ]
        try await Fixture.with { fixture in
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#)
            for (body, expected) in table {
                let answer = try await fixture.ask("POST", path, body)
                #expect(answer.status == 422, "\(body.prefix(100))")
                #expect(pointers(answer) == expected, "\(body.prefix(100))")
            }
            #expect(try await fixture.messages { $0.events }.isEmpty)
        }
    }

    @Test func `An event of more than seven days ago is ignored, and the others of its report are taken`() async throws
    {
        try await Fixture.with { fixture in
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#)
            let old = SystemClock().now().advanced(byMilliseconds: -7 * 86_400_000 - 60_000)
            let late = #"{"id":"1","send":"s","kind":"received","at_ms":\#(old.value)}"#
            let body = #"{"events":[\#(late),{"id":"2","send":"s","kind":"opened"}]}"#
            for (body, taken) in [(body, 1), (#"{"events":[\#(late)]}"#, 0)] as [(String, JSONValue)] {
                let answer = try await fixture.ask("POST", path, body)
                #expect(answer.status == 202, "\(answer.text)")
                #expect(try member(answer, "events") == taken)
            }
            let events = try await fixture.messages { $0.events }.map { try ClientEvent.decode($0) }
            #expect(events.map(\.id) == ["2"])
        }
    }

    @Test func noMoreAreTakenThanMayWait() async throws {
        try await Fixture.with { fixture in
            let app = try AppID("shop")
            func event(_ number: Int) -> ClientEvent {
                let time = UnixMilliseconds(1)
                return ClientEvent(id: "\(number)", app: "shop", device: "d", send: "s", kind: .opened, at: time)
            }
            let streams = fixture.installation.streams
            let part = (0..<10_000).map(event)
            for _ in 0..<(StreamLimits.eventEntriesMax / part.count) {
                #expect(try await streams.events.report(part, app: app, send: "s"))
            }
            #expect(try await !streams.events.report([event(0)], app: app, send: "s"))
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#)
            let answer = try await fixture.ask("POST", path, #"{"events":[{"id":"1","send":"s","kind":"opened"}]}"#)
            #expect(answer.status == 503)
            #expect(answer.header("retry-after") == "30")
        }
    }
}
