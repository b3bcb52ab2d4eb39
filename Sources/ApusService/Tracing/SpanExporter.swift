internal import ApusCore
internal import ApusMetrics
internal import ApusTLS
internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// Sends the spans of a process to a collector by OTLP over HTTP, in JSON, in batches and apart from the sending of notifications.
///
/// Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp
struct SpanExporter: Service {
    /// The time between two exports.
    static let interval = Duration.seconds(1)
    /// The maximum number of spans of one request.
    static let batchMax = 512
    /// The maximum number of attempts to send a batch while the collector is unreachable or busy; then the batch is dropped and counted.
    static let attemptsMax = 3
    /// The pause between two attempts.
    static let pause = Duration.seconds(1)

    let recorder: SpanRecorder
    let collector: TraceCollector
    let tls: TLSContext?
    let serviceName: String
    let version: String
    let eventLoopGroup: any EventLoopGroup
    let logger: Logger
    /// The longest time that the remaining spans may take when the service stops.
    var endingMax = Duration.seconds(1)

    /// Exports until a graceful shutdown, then exports the remaining spans. What has not ended within ``endingMax`` is given up.
    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isShuttingDownGracefully, !Task.isCancelled {
                    try? await cancelWhenGracefulShutdown { try await Task.sleep(for: Self.interval) }
                    await self.exportAll(attemptsMax: Self.attemptsMax)
                }
                await self.exportAll(attemptsMax: 1)
            }
            group.addTask {
                try? await gracefulShutdown()
                try? await Task.sleep(for: self.endingMax)
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func exportAll(attemptsMax: Int) async {
        while true {
            let batch = self.recorder.take(Self.batchMax)
            guard !batch.isEmpty else { return }
            let isTaken = await self.export(self.document(batch).bytes, attemptsMax: attemptsMax)
            self.recorder.count(batch.count, isTaken ? .exported : .failed)
            // The next batch would wait as long in vain.
            guard isTaken else { return }
        }
    }

    /// Posts a batch; returns true when the collector accepted it.
    private func export(_ body: [UInt8], attemptsMax: Int) async -> Bool {
        for attempt in 1...attemptsMax {
            var word = ""
            do {
                let status = try await self.collector.post(body, tls: self.tls, on: self.eventLoopGroup.next())
                if (200..<300).contains(status) { return true }
                word = "status \(status)"
                // Other statuses would not change by repetition (OTLP, "Retryable Response Codes").
                if ![429, 502, 503, 504].contains(status) { return self.giveUp(word) }
            } catch {
                word = "\(error)"
            }
            guard attempt < attemptsMax, !Task.isShuttingDownGracefully, !Task.isCancelled else {
                return self.giveUp(word)
            }
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: Self.pause) }
        }
        return false
    }

    private func giveUp(_ word: String) -> Bool {
        self.logger.warning(
            "the collector does not accept spans",
            metadata: ["address": "\(self.collector.address.authority)", "reason": "\(word)"],
        )
        return false
    }

    /// Builds an `ExportTraceServiceRequest`.
    func document(_ spans: [TraceSpan]) -> JSONValue {
        let resource = [
            TraceSpan.json("service.name", .text(self.serviceName)),
            TraceSpan.json("service.version", .text(self.version)),
        ]
        return [
            "resourceSpans": [
                [
                    "resource": ["attributes": .array(resource.map { .object($0) })],
                    "scopeSpans": [
                        [
                            "scope": ["name": "apus", "version": .string(self.version)],
                            "spans": .array(spans.map { .object($0.json) }),
                        ]
                    ],
                ]
            ]
        ]
    }
}
