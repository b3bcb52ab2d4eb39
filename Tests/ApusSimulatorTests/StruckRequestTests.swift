import ApusCore
import ApusSimulator
import ApusTLS
import Testing

/// Faults on requests that are no messages, and what the ledger and the counters say of them.
@Suite struct StruckRequestTests {
    private let ledger = SimulatorLedger()
    private let state: SimulatorState
    private let apple: APNsFixture
    private let google: FCMFixture
    private static let nanoseconds = APNsFixture.now.value * 1_000_000

    init() throws {
        self.apple = try APNsFixture()
        self.google = try FCMFixture()
        self.state = SimulatorState(
            providers: [SimulatedAPNs(self.apple.validator), SimulatedFCM(self.google.validator, self.google.oauth)],
            ledger: self.ledger,
        )
    }

    private func connection(_ listener: FaultRoute) -> StrictConnection {
        StrictConnection(state: self.state, shard: self.ledger.shard(0), listener: listener)
    }

    private func strike(_ route: FaultRoute, _ fault: Fault) {
        self.state.faults.add(FaultScript(route: route, count: 1, fault: fault))
    }

    private func answer(_ connection: inout StrictConnection, _ request: ProviderRequest) throws -> ProviderAnswer {
        let decision = connection.decide(request, nanoseconds: Self.nanoseconds)
        guard case .answer(let answer) = decision.action else { throw SimulatorError(.keys, "no answer") }
        return answer
    }

    private func json(_ answer: ProviderAnswer) throws -> JSONValue {
        try JSONValue(parsing: answer.body, bytesMax: 1 << 20)
    }

    private func batch(_ tokens: [String]) -> ProviderRequest {
        var request = self.google.request("{}")
        request.path = "/iid/v1:batchAdd"
        request.headers.append(ProviderHeader("access_token_auth", "true"))
        let order: JSONValue = ["to": "/topics/news", "registration_tokens": .array(tokens.map { .string($0) })]
        request.body = Array(order.text.utf8)
        return request
    }

    private func subscription(_ method: String, _ rest: String) -> ProviderRequest {
        var request = self.google.request("{}")
        request.method = method
        request.path = "/v1/projects/one/registrations/device:1/topicSubscriptions\(rest)"
        return request
    }

    @Test(arguments: [
        (Fault.tooManyRequests, 429, "RESOURCE_EXHAUSTED"), (.unavailable, 503, "UNAVAILABLE"),
        (.internalError, 500, "INTERNAL"), (.reason("UNAUTHENTICATED"), 401, "UNAUTHENTICATED"),
        (.reason("SENDER_ID_MISMATCH"), 403, "PERMISSION_DENIED"),
    ])
    func topicManagementWordsItsFaultsWithoutFcmError(_ fault: Fault, _ status: Int, _ word: String) throws {
        var connection = self.connection(.fcm)
        self.strike(.fcm, fault)
        let old = try self.answer(&connection, self.batch(["t1"]))
        #expect(old.status == status)
        #expect(String(decoding: old.body, as: UTF8.self) == #"{"error":"\#(word)"}"#)
        self.strike(.fcm, fault)
        let new = try self.answer(&connection, self.subscription("PATCH", "/news?allowMissing=true"))
        let error = try self.json(new)["error"]
        #expect(new.status == status)
        #expect(error?["status"]?.string == word && error?["code"]?.int64 == Int64(status))
        #expect(error?["details"] == nil)
        let summary = self.ledger.snapshot.summary
        #expect(summary.entries == 0)
        #expect(summary.count(.fcm, status: status) == 2)
        #expect(summary.faults == [fault.label: 2])
    }

    @Test func aFrontEndsPageAndAFreeAnswerStayAsTheyAre() throws {
        var connection = self.connection(.fcm)
        self.strike(.fcm, .reason("BAD_GATEWAY"))
        self.strike(.fcm, .answer(status: 418, body: #"{"error":{"status":"TEAPOT"}}"#))
        let page = try self.answer(&connection, self.batch(["t1"]))
        #expect(page.status == 502 && page.body.first == UInt8(ascii: "<"))
        let free = try self.answer(&connection, self.batch(["t1"]))
        #expect(String(decoding: free.body, as: UTF8.self) == #"{"error":{"status":"TEAPOT"}}"#)
        #expect(self.ledger.snapshot.summary.faults == ["reason:BAD_GATEWAY": 1, "answer:418": 1])
    }

    @Test func tokensOfABatchHaveResultsOfTheirOwn() throws {
        var connection = self.connection(.fcm)
        self.strike(.fcm, .result("RESOURCE_EXHAUSTED", tokensContaining: "b"))
        // Of no batch, so it waits.
        _ = try self.answer(&connection, self.google.request(#"{"token":"t"}"#))
        let first = try self.json(self.answer(&connection, self.batch(["a1", "b1", "c1", "b2"])))
        #expect(
            first["results"]?.array?.map { $0["error"]?.string } == [
                nil, "RESOURCE_EXHAUSTED", nil, "RESOURCE_EXHAUSTED",
            ]
        )
        let second = try self.json(self.answer(&connection, self.batch(["b1"])))
        #expect(second["results"]?.array?.map { $0["error"]?.string } == [nil])
        self.strike(.fcm, .result("INTERNAL", tokensContaining: nil))
        let third = try self.json(self.answer(&connection, self.batch(["x", "y"])))
        #expect(third["results"]?.array?.map { $0["error"]?.string } == ["INTERNAL", "INTERNAL"])
        #expect(self.ledger.snapshot.summary.faults == ["result:RESOURCE_EXHAUSTED": 1, "result:INTERNAL": 1])
        #expect(self.ledger.snapshot.entries.map(\.fault) == [nil])
    }

    @Test(arguments: [
        (#"{"scripts":[{"route":"fcm","fault":{"result":"TYPO"}}]}"#, "INTERNAL, UNKNOWN"),
        (#"{"scripts":[{"route":"apns","fault":{"result":"INTERNAL"}}]}"#, "apns has no batches"),
    ])
    func resultsThatInstanceIDDoesNotKnowAreRefused(_ text: String, _ ending: String) throws {
        let error = #expect(throws: SimulatorError.self) { try FaultCommand(json: Array(text.utf8)) }
        #expect(error?.message.hasSuffix(ending) == true && error?.field == "scripts[0].fault.result")
    }

    @Test(arguments: [Fault.unavailable, .refusal, .answer(status: 502, body: "")])
    func channelsAndValidationsAreCountedAndNotEntered(_ fault: Fault) throws {
        var apple = self.connection(.apns)
        var google = self.connection(.fcm)
        self.strike(.apns, fault)
        self.strike(.fcm, fault)
        let list = try self.apple.request(method: "GET", path: "/1/apps/example.app/all-channels", body: "")
        _ = apple.decide(list, nanoseconds: Self.nanoseconds)
        var validation = self.google.request("{}")
        validation.body = Array(#"{"validateOnly":true,"message":{"token":"t1"}}"#.utf8)
        _ = google.decide(validation, nanoseconds: Self.nanoseconds)
        let summary = self.ledger.snapshot.summary
        #expect(summary.entries == 0)
        #expect(summary.count(.apns) == 1 && summary.count(.fcm) == 1)
        #expect(summary.faults == [fault.label: 2])
    }

    @Test func channelsHaveTheirOwnIDAndTheirOwnWordForUnavailable() throws {
        var connection = self.connection(.apns)
        self.strike(.apns, .unavailable)
        let id = "01234567-89ab-cdef-0123-456789abcdef"
        let answer = try self.answer(
            &connection,
            try self.apple.request(
                ["apns-request-id": id],
                method: "GET",
                path: "/1/apps/example.app/all-channels",
                body: ""
            ),
        )
        #expect(answer.status == 503)
        #expect(try self.json(answer)["reason"]?.string == "Service Unavailable")
        #expect(answer.headers.filter { $0.name.hasPrefix("apns-") } == [ProviderHeader("apns-request-id", id)])
    }

    @Test func aStruckBroadcastIsEnteredByItsChannel() throws {
        var connection = self.connection(.apns)
        self.strike(.apns, .tooManyRequests)
        let request = try self.apple.request(["apns-channel-id": "c1=="], path: "/4/broadcasts/apps/example.app")
        #expect(try self.answer(&connection, request).status == 429)
        #expect(self.ledger.snapshot.entries.map(\.token) == ["/channels/c1=="])
    }

    // MARK: GOAWAY

    private func lastStreams(delay: Int64, requests: Int) throws -> [GoAwayForm.LastStream?] {
        var plan = FaultPlan()
        plan.apns.delayMilliseconds = delay
        plan.apns.goAwayAfterRequests = requests
        plan.apns.goAway.lastStream = .none
        self.state.faults.adopt(plan)
        var connection = self.connection(.apns)
        let request = try self.apple.request()
        return (0..<requests).map { _ in
            connection.decide(request, nanoseconds: Self.nanoseconds).goAway?.lastStream
        }
    }

    @Test func whatCountsAsAcceptedIsNotDisowned() throws {
        #expect(try self.lastStreams(delay: 0, requests: 3) == [nil, nil, GoAwayForm.LastStream.none])
        #expect(try self.lastStreams(delay: 50, requests: 1) == [GoAwayForm.LastStream.none])
        #expect(try self.lastStreams(delay: 50, requests: 3) == [nil, nil, .before])
        #expect(self.ledger.snapshot.entries.map(\.status) == [200, 200, 0, 0, 200, 200, 0])
    }

    @Test func whatIsNeverAnsweredIsNotDisownedEither() throws {
        self.strike(.apns, .silence)
        #expect(try self.lastStreams(delay: 0, requests: 2) == [nil, .before])
    }

    @Test(.timeLimit(.minutes(2)), arguments: ["before", "none"])
    func overHTTP1WhatIsUnprocessedEndsTheConnection(_ last: String) async throws {
        let story = "fcm: {go_away_after: 1, go_away_last: \(last)}"
        let script = try SimulatorScript(yaml: story, name: "story.yaml")
        let configuration = configured { configuration in
            configuration.usesTLS = false
            configuration.script = script
        }
        try await withSimulator(configuration) { simulator in
            let path = "/v1/projects/apus-demo/messages:send"
            let text = try await ControlClient.exchange("POST", path, body: "{}", port: simulator.addresses.fcmPort)
            #expect(text.isEmpty)
            let summary = simulator.summary
            #expect(summary.count(.fcm, status: 0) == 1 && summary.goAways == 1)
        }
    }

    // MARK: Topics

    @Test func subscriptionsHaveTheirTimeAndComeInPages() throws {
        var connection = self.connection(.fcm)
        for topic in ["c", "a", "b"] {
            let made = try self.answer(&connection, self.subscription("POST", "?topic_name=\(topic)"))
            #expect(made.status == 200)
            let resource = try self.json(made)
            #expect(resource["topic_name"]?.string == topic)
            #expect(resource["create_time"]?.string == "2027-01-15T08:00:00Z")
        }
        var names: [[String?]] = []
        var token = ""
        repeat {
            let page = try self.json(
                self.answer(&connection, self.subscription("GET", "?pageSize=2&pageToken=\(token)"))
            )
            names.append((page["topicSubscriptions"]?.array ?? []).map { $0["topic_name"]?.string })
            token = page["nextPageToken"]?.string ?? ""
        } while !token.isEmpty && names.count < 9
        #expect(names == [["a", "b"], ["c"]])
        let all = try self.json(self.answer(&connection, self.subscription("GET", "")))
        #expect(all["topicSubscriptions"]?.array?.count == 3 && all["nextPageToken"] == nil)
        for query in ["?pageSize=-1", "?pageSize=x", "?pageToken=%20"] {
            #expect(try self.answer(&connection, self.subscription("GET", query)).status == 400)
        }
    }
}
