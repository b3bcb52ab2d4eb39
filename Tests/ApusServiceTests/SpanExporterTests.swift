import ApusCore
import ApusMetrics
import ApusTLS
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import ServiceLifecycle
import Testing

@testable import ApusService

/// Spans on their way to a real listener.
@Suite struct SpanExporterTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"

    private let registry: MetricRegistry
    private let metrics: CommonMetrics
    private let recorder: SpanRecorder

    init() {
        var catalogue = MetricCatalogue()
        self.metrics = catalogue.declare { CommonMetrics(build: .current(.dispatcher), reading: [.inBulk]) }
        self.registry = MetricRegistry(catalogue)
        self.recorder = SpanRecorder(self.metrics.spans, shared: self.registry.shared)
    }

    private func span(_ number: Int, flags: String = "01") throws -> TraceSpan {
        let context = try #require(TraceContext(traceparent: "00-\(Self.trace)-b7ad6b7169203331-\(flags)"))
        return TraceSpan(
            "process apus:send",
            .consumer,
            context.child("test", of: "\(number)"),
            parent: context.span,
            tracestate: "rojo=1",
            from: 1_700_000_000_123_456_789,
            to: 1_700_000_000_223_456_789,
            attributes: ["apus.send": .text("s-\(number)"), "apus.recipients": .integer(7)],
            failure: number == 1 ? "BadDeviceToken" : nil,
        )
    }

    /// Returns how many spans were counted with that result.
    private func count(_ outcome: String) async -> Int {
        let text = String(decoding: await self.registry.exposition(.prometheusText), as: UTF8.self)
        let series = "apus_trace_spans_total{outcome=\"\(outcome)\"} "
        return text.split(separator: "\n").first { $0.hasPrefix(series) }.flatMap { Int($0.dropFirst(series.count)) }
            ?? -1
    }

    /// Exports to that address while `body` runs, and what is left when it has ended.
    private func export(to endpoint: String, tls: TLSContext? = nil, _ body: () async throws -> Void) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let exporter = SpanExporter(
            recorder: self.recorder,
            collector: try #require(TraceCollector(endpoint)),
            tls: tls,
            serviceName: "apus-dispatcher",
            version: "1.2.3",
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            endingMax: .seconds(60),
        )
        let group = ServiceGroup(configuration: .init(services: [.init(service: exporter)], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try result.get()
        }
    }

    @Test func `A span arrives with all its fields, in OTLP's JSON`() async throws {
        let listener = try await TraceListener.start()
        let span = try self.span(1)
        try await self.export(to: listener.endpoint) {
            self.recorder.record(span)
            self.recorder.record(try self.span(2, flags: "00"))
            try await eventually("the span has come") { !listener.spans.isEmpty }
        }
        #expect(listener.requests.count == 1)
        let request = try #require(listener.requests.first)
        #expect(request.path == "/v1/traces" && request.contentType == "application/json")
        let service = request.body?["resourceSpans"]?.array?.first?["resource"]?["attributes"]?.array?.first
        #expect(service?["key"]?.string == "service.name")
        #expect(service?["value"]?["stringValue"]?.string == "apus-dispatcher")
        // The other one is recorded by nobody.
        #expect(listener.spans.count == 1)
        let json = try #require(listener.spans.first)
        #expect(json["traceId"]?.string == Self.trace)
        #expect(json["spanId"]?.string == span.context.span.description)
        #expect(json["parentSpanId"]?.string == "b7ad6b7169203331")
        #expect(json["traceState"]?.string == "rojo=1")
        #expect(json["name"]?.string == "process apus:send" && json["kind"] == 5)
        #expect(json["startTimeUnixNano"]?.string == "1700000000123456789")
        #expect(json["endTimeUnixNano"]?.string == "1700000000223456789")
        let attributes = json["attributes"]?.array ?? []
        #expect(attributes.count == 2)
        #expect(attributes.first?["key"]?.string == "apus.recipients")
        #expect(attributes.first?["value"]?["intValue"]?.string == "7")
        #expect(attributes.last?["value"]?["stringValue"]?.string == "s-1")
        #expect(json["status"]?["code"] == 2 && json["status"]?["message"]?.string == "BadDeviceToken")
        #expect(await self.count("exported") == 1)
        #expect(await self.count("dropped") == 0)
        await listener.stop()
    }

    @Test func `Spans beyond the limit are dropped and counted, the others arrive in batches, also at the end`()
        async throws
    {
        for number in 0..<SpanRecorder.waitingMax + 10 { self.recorder.record(try self.span(number)) }
        #expect(await self.count("dropped") == 10)
        let listener = try await TraceListener.start()
        try await self.export(to: listener.endpoint) {}
        #expect(listener.spans.count == SpanRecorder.waitingMax)
        #expect(Set(listener.spans.compactMap { $0["spanId"]?.string }).count == SpanRecorder.waitingMax)
        #expect(listener.requests.count == SpanRecorder.waitingMax / SpanExporter.batchMax)
        #expect(await self.count("exported") == SpanRecorder.waitingMax)
        #expect(await self.count("failed") == 0)
        await listener.stop()
    }

    @Test func `A busy collector gets the batch again, one that refuses does not, and one that stays busy is given up`()
        async throws
    {
        let listener = try await TraceListener.start(answers: [503, 429, 200, 400, 503, 503, 503])
        try await self.export(to: listener.endpoint) {
            self.recorder.record(try self.span(1))
            try await eventually("the span has come") { listener.spans.count == 1 }
            #expect(listener.requests.map(\.status) == [503, 429, 200])
            self.recorder.record(try self.span(2))
            try await eventually("the second is given up") { await self.count("failed") == 1 }
            #expect(listener.requests.map(\.status) == [503, 429, 200, 400])
            self.recorder.record(try self.span(3))
            try await eventually("the third is given up") { await self.count("failed") == 2 }
        }
        #expect(listener.requests.map(\.status) == [503, 429, 200, 400, 503, 503, 503])
        #expect(SpanExporter.attemptsMax == 3)
        #expect(await self.count("exported") == 1)
        await listener.stop()
    }

    @Test func `Without a collector the span is given up, and nothing else happens`() async throws {
        let listener = try await TraceListener.start()
        let endpoint = listener.endpoint
        await listener.stop()
        try await self.export(to: endpoint) {
            self.recorder.record(try self.span(1))
            try await eventually("the span is given up") { await self.count("failed") == 1 }
        }
    }

    @Test func `A collector that does not answer is not waited for when the service stops, nor asked again`()
        async throws
    {
        let listener = try await TraceListener.start(isSilent: true)
        try await self.export(to: listener.endpoint) {
            self.recorder.record(try self.span(1))
            try await eventually("the span has come") { listener.requests.count == 1 }
        }
        #expect(listener.requests.count == 1)
        #expect(await self.count("failed") == 1)
        await listener.stop()
    }

    @Test(arguments: [("127.0.0.1", true, "exported"), ("192.0.2.1", true, "failed"), ("127.0.0.1", false, "failed")])
    func `Over TLS a span goes only where the certificate is for the address and from an authority of the file`(
        address: String,
        isTrusted: Bool,
        outcome: String,
    ) async throws {
        let validity = CertificateValidity(days: 1, from: SystemClock().now())
        let authority = try CertificateAuthority(name: "collector's", validity: validity)
        let other = try CertificateAuthority(name: "other", validity: validity)
        let profile = CertificateProfile(.server, commonName: "collector", ipAddresses: [address], validity: validity)
        let listener = try await TraceListener.start(identity: try authority.issue(profile))
        #expect(listener.endpoint.hasPrefix("https://"))
        let folder = try TemporaryDirectory.make("apus-collector")
        defer { TemporaryDirectory.remove(folder) }
        let file = "\(folder)/ca.pem"
        try (isTrusted ? authority : other).certificatePEM.write(toFile: file, atomically: true, encoding: .utf8)
        try await self.export(to: listener.endpoint, tls: try .client(trust: .file(file))) {
            self.recorder.record(try self.span(1))
            try await eventually("the span is counted", timeout: .seconds(60)) {
                let counted = await (self.count("exported"), self.count("failed"))
                return counted.0 + counted.1 == 1
            }
        }
        #expect(await self.count(outcome) == 1)
        #expect(listener.spans.count == (outcome == "exported" ? 1 : 0))
        #expect(listener.requests.count == listener.spans.count)
        await listener.stop()
    }

    @Test(arguments: [
        ("http://127.0.0.1:4318", "127.0.0.1", 4_318, "/v1/traces", false),
        ("https://collector/", "collector", 443, "/v1/traces", true),
        ("http://collector/otlp/v1/traces", "collector", 80, "/otlp/v1/traces", false),
    ])
    func `An address is split into its parts`(
        _ text: String,
        host: String,
        port: Int,
        path: String,
        isSecure: Bool
    ) throws {
        let collector = try #require(TraceCollector(text))
        #expect(collector.address.host == host && collector.address.port == port)
        #expect(collector.address.path == path && collector.address.isSecure == isSecure)
    }
}
