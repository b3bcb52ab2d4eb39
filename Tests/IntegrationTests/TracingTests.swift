import ApusCore
import ApusLab
import ApusMessages
import ApusTLS
import ApusTestKit
import Foundation
import Testing

/// A trace from the command to its outcomes and receipts, and its spans at a collector.
@Suite struct TracingTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let publisher = "00f067aa0ba902b7"
    private static let state = "rojo=1,congo=t61rcWkgMzE"

    private func name(_ span: JSONValue) -> String { span["name"]?.string ?? "" }

    @Test func `A recorded trace has a span for each step of a send, one that is not recorded has none`() async throws {
        let validity = CertificateValidity(days: 1, from: SystemClock().now())
        let authority = try CertificateAuthority(name: "collector's", validity: validity)
        let profile = CertificateProfile(
            .server,
            commonName: "collector",
            ipAddresses: ["127.0.0.1"],
            validity: validity
        )
        let listener = try await TraceListener.start(identity: try authority.issue(profile))
        let folder = try TemporaryDirectory.make("apus-collector")
        defer { TemporaryDirectory.remove(folder) }
        var configuration = LocalClusterConfiguration()
        configuration.traceEndpoint = listener.endpoint
        configuration.traceCAFile = "\(folder)/ca.pem"
        try authority.certificatePEM.write(toFile: "\(folder)/ca.pem", atomically: true, encoding: .utf8)
        try await Fleet.with(configuration) { fleet in
            let devices = try await fleet.register(60) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let one = try #require(devices.first { $0.provider == .apns })
            for (send, flags) in [("unseen", "00"), ("seen", "01")] {
                let traceparent = "00-\(Self.trace)-\(Self.publisher)-\(flags)"
                try await fleet.send(.topic("news"), id: "news-\(send)") {
                    $0.traceparent = traceparent
                    $0.tracestate = Self.state
                }
                _ = try await fleet.completion(of: "news-\(send)")
                try await fleet.send(.devices([one.id]), id: "one-\(send)", lane: .express) {
                    $0.traceparent = traceparent
                    $0.tracestate = Self.state
                }
            }
            try await eventually("every receipt is written") {
                let topic = try await fleet.receipts(of: "news-seen")
                let single = try await fleet.receipts(of: "one-seen")
                return !topic.isEmpty && !single.isEmpty
            }
            for receipt in try await fleet.receipts(of: "news-seen") + fleet.receipts(of: "one-seen") {
                #expect(receipt.tracestate == Self.state, "\(receipt.id)")
                #expect(TraceContext(traceparent: receipt.traceparent)?.trace.description == Self.trace)
            }
            // The remaining spans are exported before they end.
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
        let spans = listener.spans
        #expect(
            spans.map(self.name).sorted() == [
                // One for each of the two routes; one for each of the two sends.
                "plan apus:send", "plan apus:send", "process apus:send", "process apus:send",
                // The request of the single send, and the send to many as a whole.
                "send apns", "send apus:send",
            ]
        )
        #expect(spans.allSatisfy { $0["traceId"]?.string == Self.trace && $0["traceState"]?.string == Self.state })
        #expect(Set(spans.compactMap { $0["spanId"]?.string }).count == spans.count)
        #expect(
            spans.allSatisfy { span in
                let times = ["startTimeUnixNano", "endTimeUnixNano"].compactMap {
                    span[$0]?.string.flatMap { Int64($0) }
                }
                return times.count == 2 && times[0] > 0 && times[0] <= times[1]
            }
        )
        func send(_ span: JSONValue) -> String? {
            span["attributes"]?.array?.first { $0["key"]?.string == "apus.send" }?["value"]?["stringValue"]?.string
        }
        #expect(Set(spans.compactMap(send)) == ["news-seen", "one-seen"])
        // Dispatching follows the publisher's step, everything else follows dispatching.
        for span in spans {
            let parent = span["parentSpanId"]?.string
            guard self.name(span) != "process apus:send" else {
                #expect(parent == Self.publisher)
                continue
            }
            let step = spans.first { self.name($0) == "process apus:send" && send($0) == send(span) }
            #expect(parent == step?["spanId"]?.string, "\(self.name(span))")
        }
        await listener.stop()
    }
}
