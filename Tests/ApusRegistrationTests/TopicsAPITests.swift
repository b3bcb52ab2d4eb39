import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

private let device = #"{"provider":"fcm","token":"t1","topics":["news","sport"]}"#

private func list(_ count: Int) -> String { "[" + (0..<count).map { "\"t\($0)\"" }.joined(separator: ",") + "]" }

@Suite struct TopicsAPITests {
    @Test func topicsAreListedReplacedAndChangedTogether() async throws {
        try await Fixture.with { fixture in
            let path = "\(Fixture.path("d1"))/topics"
            #expect(try await fixture.ask("GET", path).status == 404)
            #expect(try await fixture.ask("PUT", path, #"{"topics":["a"]}"#).status == 404)
            _ = try await fixture.ask("PUT", Fixture.path("d1"), device)
            #expect(try member(try await fixture.ask("GET", path), "topics") == ["news", "sport"])
            let changed = try await fixture.ask("POST", path, #"{"subscribe":["art"],"unsubscribe":["news","never"]}"#)
            #expect(changed.status == 200)
            #expect(try member(changed, "topics") == ["art", "sport"])
            let replaced = try await fixture.ask("PUT", path, #"{"topics":["b","a","b"]}"#)
            #expect(try member(replaced, "topics") == ["a", "b"])
            #expect(try member(try await fixture.ask("PUT", path, #"{"topics":[]}"#), "topics") == [])
            #expect(try member(try await fixture.ask("GET", Fixture.path("d1")), "topics") == [])
            let app = try AppID("shop")
            // A topic that nobody was ever in gets no number for being left.
            #expect(try await fixture.store.topicNumber(app, try TopicName("never")) == nil)
            #expect(try await fixture.store.topicNumber(app, try TopicName("art")) != nil)
        }
    }

    @Test func inventedTopicsEndAtALimitThatTheAnswerNames() async throws {
        try await Fixture.with(settings: "  topics_per_app: 5\n  topics_per_user: 3") { fixture in
            func register(_ device: String, _ topics: String, user: String) async throws -> Answer {
                try await fixture.ask(
                    "PUT",
                    Fixture.path(device),
                    #"{"provider":"fcm","token":"\#(device)","user":"\#(user)","topics":\#(topics)}"#
                )
            }
            #expect(try await register("d1", #"["a","b"]"#, user: "mallory").status == 201)
            #expect(try await register("d2", #"["a","c"]"#, user: "mallory").status == 201)
            let fourth = try await register("d3", #"["d"]"#, user: "mallory")
            #expect(fourth.status == 422 && pointers(fourth) == ["#/topics"])
            #expect(fourth.text.contains("registration.topics_per_user"))
            #expect(try await register("d4", #"["a","d","e"]"#, user: "ada").status == 201)
            let sixth = try await fixture.ask("POST", "\(Fixture.path("d4"))/topics", #"{"subscribe":["f"]}"#)
            #expect(sixth.status == 422 && pointers(sixth) == ["#/topics"])
            #expect(sixth.text.contains("registration.topics_per_app"))
            #expect(try await register("d5", #"["a","b","c","d","e"]"#, user: "eve").status == 201)
        }
    }

    @Test func `A user who leaves device after device to nobody invents no more topics by that`() async throws {
        try await Fixture.with(settings: "  topics_per_app: 100\n  topics_per_user: 5") { fixture in
            let key = try Fixture.token("mallory")
            var statuses: [Int] = []
            for round in 0..<4 {
                let path = Fixture.path("d\(round)")
                let device = #"{"provider":"fcm","token":"t\#(round)"}"#
                #expect(try await fixture.ask("PUT", path, device, key: key).status == 201)
                let own = "/v1/apps/shop/users/mallory/devices/d\(round)"
                #expect(try await fixture.ask("DELETE", own, key: key).status == 204)
                let names = (0..<5).map { #""r\#(round)-\#($0)""# }.joined(separator: ",")
                let answer = try await fixture.ask("PUT", "\(path)/topics", #"{"topics":[\#(names)]}"#, key: key)
                statuses.append(Int(answer.status))
            }
            #expect(statuses == [200, 422, 422, 422])
        }
    }

    @Test func `Users leave a quarter of an app's topics to backends`() async throws {
        try await Fixture.with(settings: "  topics_per_app: 4") { fixture in
            let key = try Fixture.token("ann")
            let path = Fixture.path("d")
            let body = #"{"provider":"fcm","token":"t1","topics":["a","b","c"]}"#
            #expect(try await fixture.ask("PUT", path, body, key: key).status == 201)
            let fourth = try await fixture.ask("PUT", "\(path)/topics/d", key: key)
            #expect(fourth.status == 422 && fourth.text.contains("users' devices asked for 3 topics"))
            #expect(try await fixture.ask("PUT", "\(path)/topics/d").status == 204)
        }
    }

    @Test func aChangeKeepsToItsConditionAndToTheLimit() async throws {
        try await Fixture.with { fixture in
            let path = "\(Fixture.path("d1"))/topics"
            let etag = try #require(try await fixture.ask("PUT", Fixture.path("d1"), device).header("etag"))
            #expect(try await fixture.ask("PUT", path, #"{"topics":["x"]}"#, [("if-match", "\"other\"")]).status == 412)
            let most = #"{"topics":\#(list(100))}"#
            #expect(try await fixture.ask("PUT", path, most, [("if-match", etag)]).status == 200)
            let more = try await fixture.ask("POST", path, #"{"subscribe":["t100"]}"#)
            #expect(more.status == 422)
            #expect(pointers(more) == ["#/topics"])
            #expect(try await fixture.ask("POST", path, #"{"subscribe":["t100"],"unsubscribe":["t0"]}"#).status == 200)
            let table: [(String, String, [String])] = [
                ("PUT", "{}", ["#/topics"]), ("PUT", #"{"topics":"a"}"#, ["#/topics"]),
                ("PUT", #"{"topics":\#(list(101))}"#, ["#/topics"]),
                ("PUT", #"{"topics":["ok","not ok"]}"#, ["#/topics/1"]),
                ("POST", "{}", ["#/subscribe"]),
                ("POST", #"{"subscribe":["a"],"unsubscribe":["b","a"]}"#, ["#/unsubscribe/1"]),
            ]
            for (method, body, expected) in table {
                let answer = try await fixture.ask(method, path, body)
                #expect(answer.status == 422, "\(body)")
                #expect(pointers(answer) == expected, "\(body)")
            }
        }
    }

    @Test func anothersTopicsAreOutOfReach() async throws {
        try await Fixture.with { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            let path = "\(Fixture.path("d1"))/topics"
            _ = try await fixture.ask("PUT", Fixture.path("d1"), device, key: anna)
            let attempts: [(String, String?)] = [
                ("GET", nil), ("PUT", #"{"topics":[]}"#), ("POST", #"{"subscribe":["x"]}"#),
            ]
            for (method, body) in attempts {
                #expect(try await fixture.ask(method, path, body, key: bert).status == 404, "\(method)")
            }
            #expect(try await fixture.ask("POST", path, #"{"subscribe":["x"]}"#, key: anna).status == 200)
        }
    }
}
