import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import NIOPosix
import Testing

@testable import ApusDashboards

/// Tests what an operator sees with a real Prometheus: services at work, one of every outcome, and every query.
@Suite(.serialized) struct ObservationTests {
    private static let key = "observation"
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    /// Runs services over a simulator that fails now and then, and a Prometheus that watches them.
    private func observe(
        _ body: (Fleet, PrometheusServer, _ registrationPort: Int) async throws -> Void
    ) async throws {
        var configuration = LocalClusterConfiguration()
        configuration.simulator.deadShare = DeadShare(0.2, seed: 1)
        configuration.simulator.faults = FaultPlan(seed: 1)
        configuration.simulator.faults.apns.unavailable = 0.1
        configuration.simulator.faults.apns.goAwayAfterRequests = 100
        configuration.simulator.faults.fcm.tooManyRequests = 0.05
        configuration.simulator.faults.fcm.internalError = 0.05
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(Array(Self.key.utf8)))
        configuration.hasWebPush = true
        try await Fleet.with(configuration) { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, port) = try await fleet.startRegistration()
            let prometheus = try await PrometheusServer.start([dispatcher, feedback, registration], in: fleet.folder)
            do {
                try await body(fleet, prometheus, port)
            } catch {
                await prometheus.stop()
                throw error
            }
            await prometheus.stop()
            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
    }

    // MARK: Work

    /// Devices that come, change and go, and requests that are refused.
    private func registerAndRefuse(_ fleet: Fleet, port: Int) async throws {
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: port,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        func status(_ method: String, _ path: String, _ body: String = "", key: String = Self.key) async throws -> Int {
            let headers = [("content-type", "application/json"), ("authorization", "Bearer \(key)")]
            let path = "/v1/apps/\(Fleet.app)/\(path)"
            return try await connection.send(HTTPClientRequest(method, path, headers: headers, body: Array(body.utf8)))
                .status
        }
        func device(_ digit: String, topic: String) -> String {
            let token = String(repeating: digit, count: 64)
            return #"{"provider": "apns", "token": "\#(token)", "topics": ["\#(topic)"]}"#
        }
        #expect(try await status("PUT", "devices/phone", device("a", topic: "x")) == 201)
        #expect(try await status("PUT", "devices/phone", device("a", topic: "x")) == 200)
        #expect(try await status("PUT", "devices/phone", device("a", topic: "y")) == 200)
        #expect(try await status("PUT", "devices/phone", device("b", topic: "y")) == 200)
        #expect(try await status("GET", "devices/phone") == 200)
        #expect(try await status("PUT", "devices/phone/topics/z") == 204)
        #expect(try await status("PUT", "users/ada/devices/phone") == 204)
        #expect(try await status("DELETE", "devices/phone") == 204)
        #expect(try await status("GET", "devices/phone") == 404)
        #expect(try await status("PUT", "devices/phone", #"{"provider": "apns", "token": "short"}"#) == 422)
        #expect(try await status("GET", "devices/phone", key: "wrong") == 401)
        await connection.close()
    }

    private func write(_ bytes: [UInt8], to stream: KeyPath<StreamKeys, String>, _ fleet: Fleet) async throws {
        let keys = fleet.installation.streams.keys(shard: 1)
        let command = RedisCommand("XADD", .text(keys[keyPath: stream]), "*", "m", .bytes(bytes))
        _ = try await fleet.client.send(command, on: keys.tag)
    }

    /// Reports events of a send: each kind once.
    private func report(_ fleet: Fleet, _ devices: some Collection<SampleDevice>, of send: String) async throws {
        let events = devices.flatMap { device in
            ClientEvent.Kind.allCases.map { kind in
                ClientEvent(
                    id: "\(kind)",
                    app: Fleet.app,
                    device: device.id,
                    send: send,
                    kind: kind,
                    at: fleet.clock.now(),
                )
            }
        }
        #expect(try await fleet.installation.streams.events.report(events, app: try AppID(Fleet.app), send: send))
    }

    /// Sends to topics and to one, and commands that are a duplicate, a conflict, invalid, too late, or no command at all.
    private func send(_ fleet: Fleet, _ devices: [SampleDevice], round: Int) async throws {
        let sampled = "00-\(Self.trace)-00f067aa0ba902b7-01"
        try await fleet.send(.topic("news"), id: "news-\(round)") { $0.traceparent = sampled }
        try await self.report(fleet, devices.prefix(20), of: "news-\(round)")
        for (number, device) in devices.prefix(20).enumerated() {
            try await fleet.send(.devices([device.id]), id: "one-\(round)-\(number)", lane: .express) {
                $0.traceparent = sampled
            }
        }
        let browser = SimulatedBrowser(endpoint: SimulatedBrowser.Service.google.endpoint("browser"))
        var address = Address(provider: .webpush, token: browser.endpoint)
        address.webpushP256DH = try #require(Base64URL.decode(browser.p256dh))
        address.webpushAuth = try #require(Base64URL.decode(browser.auth))
        try await fleet.send(.addresses([address]), id: "browser-\(round)", lane: .express)
        var command = fleet.command(.topic("news"), id: "keyed-\(round)")
        command.idempotencyKey = "key-\(round)"
        try await self.write(try command.encode(), to: \.bulkMailbox, fleet)
        try await self.write(try command.encode(), to: \.bulkMailbox, fleet)
        command.id = "other-\(round)"
        command.notification.title = "Another"
        try await self.write(try command.encode(), to: \.bulkMailbox, fleet)
        var late = fleet.command(.topic("news"), id: "late-\(round)")
        late.notification.expiry = .at(UnixMilliseconds(1_000))
        try await self.write(try late.encode(), to: \.bulkMailbox, fleet)
        let stranger = fleet.command(.topic("news"), id: "stranger-\(round)", app: "nobody")
        try await self.write(try stranger.encode(), to: \.bulkMailbox, fleet)
        for stream in [\StreamKeys.bulkMailbox, \.outcomes, \.register] {
            try await self.write([0xff, 0x00], to: stream, fleet)
        }
        _ = try await fleet.completion(of: "news-\(round)") { try await fleet.makeRetriesDue() }
    }

    // MARK: Queries

    /// Every query of every dashboard, rule and table, with where it is from.
    private static var queries: [(place: String, expression: String)] {
        let panels = Dashboard.all.flatMap { dashboard in
            dashboard.rows.flatMap(\.panels).flatMap { panel in
                panel.queries.map { (place: "\(dashboard.title): \(panel.title)", expression: $0.expression) }
            }
        }
        let recorded = RuleGroup.recorded.flatMap(\.recordings).flatMap { rule in
            [(place: "rule \(rule.name)", expression: rule.expression), (place: "recorded", expression: rule.name)]
        }
        let queries = RuleGroup.alerts.flatMap { alert in
            alert.queries.map { (place: "alert \(alert.name)", expression: $0) }
        }
        let tables = ConsoleTable.all.map { (place: "table \($0.title)", expression: $0.query) }
        return panels + recorded + queries + tables
    }

    /// With what Grafana puts in the place of its variables.
    private static func concrete(_ expression: String) -> String {
        ["job", "instance", "provider", "stream"].reduce(
            expression.replacing("$__rate_interval", with: "5m").replacing("$__range", with: "5m")
        ) { $0.replacing("$\($1)", with: ".+") }
    }

    @Test(
        .enabled(if: PrometheusServer.isInstalled, "needs the Debian package prometheus"),
        .timeLimit(.minutes(5))
    )
    func `Every query of every dashboard, rule and table has an answer, and traces lead from latencies to receipts`()
        async throws
    {
        try await self.observe { fleet, prometheus, port in
            let devices = try await fleet.register(400) { _ in ["news"] }
            var unanswered = Self.queries
            #expect(unanswered.count > 150)
            var round = 0
            let deadline = ContinuousClock.now + .seconds(180)
            while !unanswered.isEmpty, ContinuousClock.now < deadline {
                try await self.registerAndRefuse(fleet, port: port)
                try await self.send(fleet, devices, round: round)
                round += 1
                var left: [(place: String, expression: String)] = []
                for query in unanswered {
                    do {
                        let samples = try await prometheus.query(Self.concrete(query.expression))
                        if !samples.contains(where: { !$0.value.isNaN }) { left.append(query) }
                    } catch let error as PrometheusFailure {
                        Issue.record("\(query.place): \(error) in \(query.expression)")
                    }
                }
                unanswered = left
                try await Task.sleep(for: .seconds(1))
            }
            for query in unanswered { Issue.record("\(query.place) has no answer: \(query.expression)") }
            for alert in RuleGroup.alerts { _ = try await prometheus.query(alert.expression) }
            try await self.checkVariables(prometheus)
            try await self.checkConsole(prometheus)
            try await self.checkTraces(fleet, prometheus)
        }
    }

    /// Returns the values of a dashboard's variable.
    private func checkVariables(_ prometheus: PrometheusServer) async throws {
        for dashboard in Dashboard.all {
            for variable in dashboard.variables {
                let series = try await prometheus.series(Self.concrete(variable.family.shown()))
                let values = Set(series.compactMap { $0[variable.label]?.string })
                #expect(values.count > 1, "\(dashboard.title): nothing to choose of \(variable.label)")
            }
        }
        for label in ["job", "instance"] {
            let series = try await prometheus.series(Catalogues.every.buildInformation.name)
            #expect(Set(series.compactMap { $0[label]?.string }).count == 3)
        }
    }

    /// The page that needs no Grafana.
    private func checkConsole(_ prometheus: PrometheusServer) async throws {
        let (status, text) = try await prometheus.page("/consoles/apus.html")
        #expect(status == 200)
        for words in [
            "<td>apus-dispatcher</td>", "<td>accepted</td>", "<td>in_bulk</td>", "<td>ApusDeadLetters</td>",
            "<td>malformed</td>", "<td>jwt</td>", "<td>oauth</td>", "</html>",
        ] { #expect(text.contains(words), "the console page has no \(words)") }
        // The dashboards went through the template language unharmed.
        let start = try #require(text.range(of: "id=\"dashboards\">"))
        let end = try #require(text[start.upperBound...].range(of: "</script>"))
        let json = try JSONValue(
            parsing: String(text[start.upperBound..<end.lowerBound]),
            bytesMax: 16 << 20,
            depthMax: 32,
        )
        #expect(json == .array(Dashboard.all.map(\.json)))
    }

    /// Follows a latency to its trace, and the command to its receipt and to the log.
    private func checkTraces(_ fleet: Fleet, _ prometheus: PrometheusServer) async throws {
        for name in ["apus_dispatcher_delivery_latency_seconds", "apus_provider_request_duration_seconds"] {
            try await eventually("\(name) has exemplars") {
                try await prometheus.traces("\(name)_bucket").contains(Self.trace)
            }
        }
        let receipts = try await fleet.receipts(of: "news-0") + fleet.receipts(of: "one-0-0")
        #expect(receipts.count >= 2)
        for receipt in receipts {
            let context = try #require(TraceContext(traceparent: receipt.traceparent), "\(receipt.id) has no trace")
            #expect(context.trace.description == Self.trace && context.isSampled)
            #expect(context.span.description != "00f067aa0ba902b7", "the step of dispatching is a span of its own")
        }
        let planned = try #require(
            fleet.running.first { $0.name == "dispatcher" }?.log.split(separator: "\n")
                .first { $0.contains("\"msg\":\"planned\"") && $0.contains("\"news-0\"") }
        )
        #expect(planned.contains("\"trace_id\":\"\(Self.trace)\"") && planned.contains("\"span_id\":\""))
    }
}

extension StreamKeys {
    fileprivate var bulkMailbox: String { self.mailbox(.bulk) }
}
