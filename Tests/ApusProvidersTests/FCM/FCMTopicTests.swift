import ApusCore
import ApusFCM
import ApusHTTP2
import ApusMessages
import ApusProviders
import Testing

@Suite("FCM: topic subscriptions")
struct FCMTopicTests {
    private func outcomes(_ status: Int, _ body: String, count: Int) -> [FCMTopicOutcome] {
        InstanceIDTopics.outcomes(status: status, body: Array(body.utf8), count: count)
    }

    @Test("D79 1,000 tokens are one request and 1,001 two; each result is its token's")
    func batches() throws {
        let tokens = (0..<1_001).map { "device:\($0)" }
        #expect(InstanceIDTopics.batches(Array(tokens.dropLast())).map(\.count) == [1_000])
        let batches = InstanceIDTopics.batches(tokens)
        #expect(batches.map(\.count) == [1_000, 1] && Array(batches.joined()) == tokens)
        #expect(InstanceIDTopics.batches([]).isEmpty)
        let results = (0..<1_000).map { $0 == 999 ? #"{"error":"NOT_FOUND"}"# : "{}" }.joined(separator: ",")
        let outcomes = self.outcomes(200, "{\"results\":[\(results)]}", count: 1_000)
        #expect(outcomes.firstIndex(of: .gone) == 999 && outcomes.count { $0 == .done } == 999)
        let second = self.outcomes(200, #"{"results":[{"error":"INVALID_ARGUMENT"}]}"#, count: 1)
        #expect(second == [.badToken])
    }

    @Test("a request's body has room for its tokens, however long they are")
    func longTokens() throws {
        let tokens = (0..<200).map { "\($0)" + String(repeating: "x", count: 4_000) }
        let batches = InstanceIDTopics.batches(tokens)
        #expect(batches.count > 2 && Array(batches.joined()) == tokens)
        for batch in batches {
            _ = try InstanceIDTopics.request(
                FCMTopicChange(.subscribe, TopicName("news")),
                tokens: batch,
                authority: "localhost",
                authorization: HeaderValue("Bearer x"),
            )
        }
    }

    @Test("D80 a token that is not found is gone, the others are subscribed")
    func notFound() {
        let body = #"{"results":[{},{},{},{"error":"NOT_FOUND"},{}]}"#
        #expect(self.outcomes(200, body, count: 5) == [.done, .done, .done, .gone, .done])
    }

    @Test("each word has its meaning, and a refused request says nothing of any token")
    func words() {
        let words = [
            "TOO_MANY_TOPICS", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "PERMISSION_DENIED", "X",
        ]
        let results = words.map { #"{"error":"\#($0)"}"# }.joined(separator: ",")
        #expect(
            self.outcomes(200, "{\"results\":[\(results)]}", count: 6)
                == [.tooManyTopics, .later, .later, .later, .refused("PERMISSION_DENIED"), .refused("X")]
        )
        #expect(
            self.outcomes(400, #"{"error":"INVALID_ARGUMENT"}"#, count: 2)
                == [.refused("INVALID_ARGUMENT"), .refused("INVALID_ARGUMENT")]
        )
        #expect(self.outcomes(404, #"{"error":"NOT_FOUND"}"#, count: 1) == [.refused("NOT_FOUND")])
        for (status, body) in [(429, ""), (503, "<html>"), (200, "{}"), (200, #"{"results":[{}]}"#)] {
            #expect(self.outcomes(status, body, count: 2) == [.later, .later])
        }
    }

    @Test("an Instance ID request, as Google's SDKs make it")
    func instanceID() throws {
        let request = try InstanceIDTopics.request(
            FCMTopicChange(.unsubscribe, TopicName("/topics/news")),
            tokens: ["a", "b"],
            authority: InstanceIDTopics.host,
            authorization: HeaderValue("Bearer x"),
        )
        #expect(request.method == "POST" && request.path == "/iid/v1:batchRemove")
        #expect(request.headers.contains { $0.name == "access_token_auth" && $0.value.text == "true" })
        #expect(
            String(decoding: request.body, as: UTF8.self) == #"{"to":"/topics/news","registration_tokens":["a","b"]}"#
        )
    }

    @Test("the interface of 2026: one app instance at a time, and repeating changes nothing")
    func subscriptions() throws {
        func request(_ verb: FCMTopicChange.Verb) throws -> String {
            let request = try TopicSubscriptions.request(
                FCMTopicChange(verb, TopicName("a%b")),
                instance: "device:1/2",
                project: "p",
                authority: "localhost",
                authorization: HeaderValue("Bearer x"),
            )
            return "\(request.method) \(request.path)"
        }
        let path = "/v1/projects/p/registrations/device:1%2F2/topicSubscriptions/a%25b?allowMissing=true"
        #expect(try request(.subscribe) == "PATCH \(path)")
        #expect(try request(.unsubscribe) == "DELETE \(path)")
        func outcome(_ status: Int, _ word: String) -> FCMTopicOutcome {
            TopicSubscriptions.outcome(status: status, body: Array(#"{"error":{"status":"\#(word)"}}"#.utf8))
        }
        #expect(outcome(200, "") == .done && outcome(409, "ALREADY_EXISTS") == .done)
        #expect(outcome(400, "INVALID_ARGUMENT") == .badToken)
        #expect(outcome(429, "RESOURCE_EXHAUSTED") == .later && outcome(502, "") == .later)
        #expect(outcome(403, "PERMISSION_DENIED") == .refused("PERMISSION_DENIED"))
    }

    @Test("D59 a bare 404 is a wrong project or address: nobody is pruned for it")
    func bareNotFound() {
        func outcome(_ status: Int, _ body: String) -> FCMTopicOutcome {
            TopicSubscriptions.outcome(status: status, body: Array(body.utf8))
        }
        #expect(outcome(404, #"{"error":{"code":404,"status":"NOT_FOUND"}}"#) == .refused("NOT_FOUND"))
        #expect(outcome(404, "<html>") == .refused("status 404"))
        #expect(outcome(400, #"{"error":{"status":"NOT_FOUND"}}"#) == .refused("NOT_FOUND"))
        let gone = """
            {"error":{"code":404,"status":"NOT_FOUND","details":[{"@type":\
            "type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}
            """
        #expect(outcome(404, gone) == .gone)
    }
}
