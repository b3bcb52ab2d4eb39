import ApusCore
import Testing

@testable import ApusSimulator

/// Google's Instance ID interface, as the simulator speaks it.
@Suite struct InstanceIDTests {
    private let fixture: FCMFixture
    private let topics = FCMTopics()

    init() throws { self.fixture = try FCMFixture() }

    private func ask(_ method: String, _ path: String, _ body: String = "") throws -> (status: Int, json: JSONValue) {
        var request = self.fixture.request("")
        request.method = method
        request.path = path
        request.headers.append(ProviderHeader("access_token_auth", "true"))
        request.body = Array(body.utf8)
        let answer = self.topics.validate(
            request,
            validator: self.fixture.validator,
            behaviors: self.fixture.behaviors,
            now: FCMFixture.now,
        )
        return (answer.status, try JSONValue(parsing: answer.body, bytesMax: 10_000))
    }

    @Test func `An app instance subscribes to a topic, and its information names the topic and the day`() throws {
        #expect(try self.ask("POST", "/iid/v1/a:b/rel/topics/news").status == 200)
        #expect(try self.ask("POST", "/iid/v1/a:b/rel/topics/no%20topic").status == 400)
        let short = try self.ask("GET", "/iid/info/a:b")
        #expect(short.status == 200 && short.json["authorizedEntity"]?.string == "one" && short.json["rel"] == nil)
        let long = try self.ask("GET", "/iid/info/a:b?details=true").json
        #expect(long["rel"]?["topics"]?["news"]?["addDate"]?.string == "2027-01-15")
        #expect(try self.ask("GET", "/iid/v2/a:b").status == 404)
    }

    @Test func `Apple's tokens are exchanged, each always for the same one`() throws {
        let order = #"{"application":"example.app","sandbox":false,"apns_tokens":["00ff","not one"]}"#
        let answer = try self.ask("POST", "/iid/v1:batchImport", order)
        let results = try #require(answer.json["results"]?.array)
        #expect(results[0]["status"]?.string == "OK")
        #expect(results[0]["registration_token"]?.string == FCMTopics.registrationToken(importing: "00FF"))
        #expect(results[1]["status"]?.string == "INVALID_ARGUMENT" && results[1]["registration_token"] == nil)
        let many = Array(repeating: #""00""#, count: 101).joined(separator: ",")
        let tooMany = #"{"application":"example.app","sandbox":false,"apns_tokens":[\#(many)]}"#
        #expect(try self.ask("POST", "/iid/v1:batchImport", tooMany).status == 400)
        #expect(try self.ask("POST", "/iid/v1:batchImport", #"{"sandbox":true,"apns_tokens":["00"]}"#).status == 400)
    }

    @Test func `Whole numbers are taken as numbers and as texts`() throws {
        for (count, isGood) in [
            ("5", true), (#""5""#, true), ("5.0", true), ("5.5", false), (#""many""#, false), ("3000000000", false),
        ] {
            let message = #"{"token":"t","android":{"notification":{"notification_count":\#(count)}}}"#
            let verdict = try self.fixture.verdict(self.fixture.request(message))
            #expect(verdict.hasPrefix(isGood ? "200" : "400"), "\(count): \(verdict)")
        }
    }
}
