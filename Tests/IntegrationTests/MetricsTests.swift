import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// The samples of one answer of `/metrics`.
private struct Samples {
    private let values: [Substring: Double]

    init(_ text: String) {
        var values: [Substring: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " ") else { continue }
            values[line[..<space]] = Double(line[line.index(after: space)...])
        }
        self.values = values
    }

    /// A sample by its name and labels, as the text has them; nil when it is absent.
    subscript(_ series: String) -> Double? { self.values[Substring(series)] }

    /// The first sample of that name with that label value.
    func stream(_ name: String, _ stream: String, _ rest: String = "") -> Double? {
        self.values.first { $0.key.hasPrefix("\(name){stream=\"\(stream)\"") && $0.key.hasSuffix("\(rest)}") }?.value
    }

    func redis(_ command: String, _ outcome: String = "ok") -> Double {
        self["apus_redis_commands_total{command=\"\(command)\",outcome=\"\(outcome)\"}"] ?? -1
    }

    func stage(_ stage: String) -> Double? {
        self["apus_dispatcher_stage_duration_seconds_count{stage=\"\(stage)\"}"]
    }

    func acknowledged(_ stream: String) -> Double? { self.stream("apus_stream_entries_acked_total", stream) }
    func read(_ stream: String) -> Double? { self.stream("apus_stream_entries_read_total", stream) }
    func malformed(_ stream: String) -> Double? { self.stream("apus_stream_entries_malformed_total", stream) }
    func dead(_ stream: String) -> Double? {
        self.stream("apus_stream_dead_letters_total", stream, ",reason=\"malformed\"")
    }
}

private let promtool = "/usr/bin/promtool"

@Suite struct MetricsTests {
    /// Returns the text of `/metrics`, after promtool has found no fault in it.
    private func samples(_ service: ServiceProcess) async throws -> Samples {
        let answer = try await service.get("metrics")
        #expect(answer.status == 200)
        #expect(try Self.lint(answer.body, in: service.directory) == "", "\(service.name)")
        let open = try await service.get("metrics", accept: "application/openmetrics-text; version=1.0.0")
        #expect(open.body.hasSuffix("\n# EOF\n"))
        return Samples(answer.body)
    }

    private static func lint(_ text: String, in directory: String) throws -> String {
        try text.write(toFile: "\(directory)/metrics", atomically: true, encoding: .utf8)
        let process = Process()
        process.executableURL = URL(filePath: promtool)
        process.arguments = ["check", "metrics"]
        process.standardInput = try FileHandle(forReadingFrom: URL(filePath: "\(directory)/metrics"))
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        return process.terminationStatus == 0 ? said : "status \(process.terminationStatus): \(said)"
    }

    private func write(_ bytes: [UInt8], to stream: KeyPath<StreamKeys, String>, _ fleet: Fleet) async throws {
        let keys = fleet.installation.streams.keys(shard: 1)
        let command = RedisCommand("XADD", .text(keys[keyPath: stream]), "*", "m", .bytes(bytes))
        _ = try await fleet.client.send(command, on: keys.tag)
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: promtool), "needs the Debian package prometheus"))
    func `After some work the common families of every service have values, and promtool finds no fault`()
        async throws
    {
        try await Fleet.with(dead: 0.2) { fleet in
            let devices = try await fleet.register(200) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, _) = try await fleet.startRegistration()
            // Nothing was sent yet, so nobody was found dead.
            for provider in [Provider.apns, .fcm] {
                let series = "apus_registration_devices{provider=\"\(provider.name)\"}"
                let count = devices.count { $0.provider == provider }
                try await eventually("\(series) says \(count)") {
                    try await Samples(registration.get("metrics").body)[series] == Double(count)
                }
            }
            for stream in [\StreamKeys.bulkMailbox, \.outcomes, \.register] {
                try await self.write([0xff, 0x00, 0x01], to: stream, fleet)
            }
            try await self.write([0x00], to: \.events, fleet)
            try await fleet.send(.topic("news"), id: "news")
            let ledger = try await fleet.completion(of: "news")
            let dead = devices.filter { fleet.simulator.isDead($0.token, provider: $0.provider) }
            #expect(ledger.total(.unregistered) == UInt64(dead.count) && dead.count > 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await fleet.send(.topic("news"), id: "tomorrow") {
                $0.notBefore = UnixMilliseconds($0.publishedAtNanoseconds / 1_000_000 + 86_400_000)
            }

            try await eventually("the dispatcher has counted") {
                try await Samples(dispatcher.get("metrics").body).acknowledged("in_bulk") == 3
            }
            var samples = try await self.samples(dispatcher)
            self.expectRedis(samples, pending: "in_bulk")
            #expect(samples.read("in_bulk") == 3)
            #expect(samples.malformed("in_bulk") == 1)
            #expect(samples.dead("in_bulk") == 1)
            // One for each of the two routes.
            #expect(samples.acknowledged("plan") == 2)
            #expect((samples.acknowledged("work") ?? 0) > 0)
            #expect(samples.acknowledged("work") == samples.read("work"))
            for stage in ["render", "resolve", "queue", "send", "write"] {
                #expect((samples.stage(stage) ?? 0) > 0, "\(stage)")
            }
            // The dispatchers have all their answers, and each reported them once.
            #expect(samples.stage("queue") == samples.stage("send"))
            for provider in ["apns", "fcm"] {
                func own(_ name: String, _ more: String = "") -> Double {
                    samples["apus_\(name){provider=\"\(provider)\"\(more)}"] ?? -1
                }
                let connects = own("provider_connect_duration_seconds_count")
                #expect(connects >= 1)
                #expect(own("provider_tls_handshake_seconds_count") == connects)
                #expect(own("provider_connection_attempts_total", ",outcome=\"ok\"") == connects)
                for cause in ["dns", "tcp", "tls", "alpn", "timeout"] {
                    #expect(own("provider_connection_attempts_total", ",outcome=\"\(cause)\"") == 0)
                }
                #expect((1...connects).contains(own("provider_ping_seconds_count")))
                let body = own("provider_payload_bytes_total")
                #expect(body > 0 && own("provider_bytes_total", ",direction=\"sent\"") > body)
                #expect(own("provider_bytes_total", ",direction=\"received\"") > 0)
                #expect(own("provider_token_mints_total", ",outcome=\"ok\"") == 1)
                #expect(own("provider_token_mints_total", ",outcome=\"failed\"") == 0)
                // One send, written out once for the route.
                #expect(own("dispatcher_payload_bytes_count") >= 1)
                #expect(own("dispatcher_payload_bytes_sum") > 50 && own("dispatcher_payload_bytes_sum") < 5_000)
            }
            #expect(samples.stream("apus_stream_length_entries", "due") == 2)
            #expect(samples.stream("apus_stream_backlog_entries", "due") == 0)

            try await eventually("the batch and the event of bytes are buried") {
                let samples = Samples(try await feedback.get("metrics").body)
                return samples.dead("outcomes") == 1 && samples.dead("events") == 1
            }
            samples = try await self.samples(feedback)
            self.expectRedis(samples, pending: "outcomes")
            #expect(samples.malformed("outcomes") == 1)
            #expect(samples.acknowledged("outcomes") == samples.read("outcomes"))
            #expect((samples.read("outcomes") ?? 0) > 1)
            #expect(samples.malformed("events") == 1)
            #expect(samples.stream("apus_stream_length_entries", "events") == 0)
            #expect(samples.stream("apus_stream_backlog_entries", "events") == 0)

            try await eventually("the register command of bytes is buried") {
                try await Samples(registration.get("metrics").body).dead("register") == 1
            }
            samples = try await self.samples(registration)
            self.expectRedis(samples, pending: "register")
            #expect(samples.read("register") == 1)
            #expect(samples.acknowledged("register") == 1)
            #expect(samples.malformed("register") == 1)

            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
    }

    @Test func `While Redis is away the metrics say so, and the streams have no numbers`() async throws {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let feedback = try await fleet.startFeedback()
            try await eventually("it is there") {
                let samples = try await Samples(feedback.get("metrics").body)
                return samples["apus_redis_connected"] == 1
                    && samples.stream("apus_stream_length_entries", "outcomes") == 0
            }
            await fleet.redis.kill()
            try await eventually("it is away") {
                let samples = try await Samples(feedback.get("metrics").body)
                return samples["apus_redis_connected"] == 0
                    && samples.stream("apus_stream_length_entries", "outcomes") == nil
            }
            try await fleet.redis.restart()
            try await eventually("it is back") {
                let samples = try await Samples(feedback.get("metrics").body)
                return samples["apus_redis_connected"] == 1 && (samples["apus_redis_reconnects_total"] ?? 0) >= 1
                    && samples.stream("apus_stream_length_entries", "outcomes") == 0
            }
            try await feedback.terminate()
        }
    }

    private func expectRedis(_ samples: Samples, pending stream: String) {
        #expect(samples["apus_redis_connected"] == 1)
        #expect(samples["apus_redis_reconnects_total"] == 0)
        #expect(samples.redis("fcall") > 0)
        #expect(samples.redis("xreadgroup") > 0)
        #expect((samples["apus_redis_command_duration_seconds_count{command=\"fcall\"}"] ?? 0) > 0)
        // Reads that block are counted, but say nothing about how long Redis takes; those that don't are measured.
        let measured = samples["apus_redis_command_duration_seconds_count{command=\"xreadgroup\"}"] ?? 0
        #expect(measured > 0 && measured < samples.redis("xreadgroup"))
        #expect(samples.stream("apus_stream_length_entries", stream) == 0)
        #expect(samples.stream("apus_stream_pending_entries", stream) == 0)
        #expect(samples.stream("apus_stream_oldest_pending_timestamp_seconds", stream) == 0)
    }
}

extension StreamKeys {
    fileprivate var bulkMailbox: String { self.mailbox(.bulk) }
}
