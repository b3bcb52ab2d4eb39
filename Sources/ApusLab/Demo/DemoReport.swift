package import ApusCore
internal import ApusMessages
package import ApusStreams
internal import ApusTerminal

/// The result of a demo.
package struct DemoReport: Hashable, Sendable {
    /// The result of one send.
    package struct SendRow: Hashable, Sendable {
        /// The name in the report.
        package var name: String
        /// The send's id.
        package var send: String
        /// The number of recipients.
        package var recipients: UInt64
        /// The number of accepted notifications.
        package var accepted: UInt64
        /// The number of dead tokens.
        package var unregistered: UInt64
        /// The number of all other outcomes.
        package var failed: UInt64
        /// The number of devices that the send was for.
        package var audience = 0
        /// The number of its devices whose notification a provider accepted, by the simulator's ledger.
        package var acceptedByProviders = 0
        /// The seconds from publication to the last outcome.
        package var elapsedSeconds: Double
        /// The reason why it was refused; nil when it was not.
        package var refusal: String?

        /// The recipients per second.
        package var ratePerSecond: Double {
            self.elapsedSeconds > 0 ? Double(self.recipients) / self.elapsedSeconds : 0
        }

        /// Creates a row from a send's last status.
        ///
        /// - Parameter publishedAtNanoseconds: the time of publication in nanoseconds since 1970.
        package init(name: String, status: SendStatus, publishedAtNanoseconds: Int64) {
            self.name = name
            self.send = status.send
            self.recipients = status.planned
            self.accepted = status.total(.accepted)
            self.unregistered = status.total(.unregistered)
            self.failed = status.planned - min(status.planned, self.accepted + self.unregistered)
            // The ledger's times are whole milliseconds, rounded down.
            let last = status.lastAt.map { $0.value * 1_000_000 + 999_999 } ?? publishedAtNanoseconds
            self.elapsedSeconds = Double(max(0, last - publishedAtNanoseconds)) / 1e9
            if case .refused(let problem) = status.phase { self.refusal = "\(problem.code): \(problem)" }
        }

        /// Returns the sentences about counts that do not add up; none of a send that was refused.
        ///
        /// - Parameter deviation: the maximum deviation of a count.
        func complaints(beyond deviation: Int) -> [String] {
            guard self.refusal == nil else { return [] }
            func isBeyond(_ count: UInt64, _ expected: Int) -> Bool {
                (Int64(clamping: count) - Int64(expected)).magnitude > deviation
            }
            var complaints: [String] = []
            if isBeyond(self.failed, 0) {
                complaints.append(
                    "\(self.name): \(NumberText.grouped(self.failed)) recipients ended neither as accepted nor as unregistered"
                )
            }
            if isBeyond(self.recipients, self.audience) {
                complaints.append(
                    "\(self.name): \(NumberText.grouped(self.recipients)) recipients; the send was for "
                        + "\(NumberText.grouped(self.audience)) devices"
                )
            }
            if isBeyond(self.accepted, self.acceptedByProviders) {
                complaints.append(
                    "\(self.name): \(NumberText.grouped(self.accepted)) accepted; by the simulator's ledger "
                        + "\(NumberText.grouped(self.acceptedByProviders))"
                )
            }
            return complaints
        }

        var json: JSONObject {
            var object: JSONObject = [
                "name": .string(self.name), "send": .string(self.send), "recipients": .integer(self.recipients),
                "accepted": .integer(self.accepted), "unregistered": .integer(self.unregistered),
                "failed": .integer(self.failed),
                "elapsed_seconds": NumberText.json(self.elapsedSeconds, 3),
                "rate_per_second": NumberText.json(self.ratePerSecond, 1),
            ]
            if let refusal { object["refused"] = .string(refusal) }
            return object
        }
    }

    /// The number of registered devices.
    package var devices = 0
    /// The number of those with dead tokens.
    package var dead = 0
    /// The seconds of the registration.
    package var registrationSeconds = 0.0
    /// The sends.
    package var sends: [SendRow] = []
    /// The number of devices that are gone from the store.
    package var pruned = 0
    /// The number of those with living tokens.
    package var prunedAlive = 0
    /// The comparison of the audience with the simulator's ledger.
    package var audit = DeliveryAudit.Finding()
    /// The number of requests that may be repeated, since a Redis master was killed; 0 when none was.
    package var repeatedMax = 0
    /// The sentences about what was done to Redis.
    package var redis: [String] = []
    /// The number of entries left in any stream except the dead letters.
    package var leftInStreams: Int64 = 0
    /// The dispatcher's processor seconds during the send to everyone, for each million accepted.
    package var dispatcherSecondsPerMillion = 0.0
    /// The latencies of single sends from publication to acceptance, in nanoseconds, ascending.
    package var latencies: [Int64] = []
    /// The machine.
    package var machine = Machine.current
    /// True when the simulator validated every request.
    package var isStrict = true
    /// True for a release build.
    package var isOptimised = true

    /// Creates an empty report.
    package init() {}

    /// The sentences about counts that do not add up; empty when all do.
    package var complaints: [String] {
        var complaints: [String] = []
        if self.audit.lost > 0 { complaints.append("\(NumberText.grouped(self.audit.lost)) notifications were lost") }
        if self.audit.repeated > self.repeatedMax {
            let most = self.repeatedMax > 0 ? ", more than the \(NumberText.grouped(self.repeatedMax)) that may be" : ""
            complaints.append("\(NumberText.grouped(self.audit.repeated)) requests were repeated\(most)")
        }
        if self.audit.unexpected > 0 {
            complaints.append("\(NumberText.grouped(self.audit.unexpected)) requests belong to no send")
        }
        if self.pruned != self.dead || self.prunedAlive > 0 {
            complaints.append(
                "\(NumberText.grouped(self.pruned)) devices were pruned, \(NumberText.grouped(self.prunedAlive)) of them "
                    + "alive; \(NumberText.grouped(self.dead)) tokens are dead"
            )
        }
        if self.leftInStreams > 0 {
            complaints.append("\(NumberText.grouped(self.leftInStreams)) stream entries were left unfinished")
        }
        // A recipient whose outcome went down with a master ends again, and its device may be gone by then.
        return complaints + self.sends.flatMap { $0.complaints(beyond: self.repeatedMax) }
    }

    /// Returns a percentile of the latencies, in milliseconds; nil without any.
    package func latency(percentile: Double) -> Double? {
        guard !self.latencies.isEmpty else { return nil }
        let rank = (percentile / 100 * Double(self.latencies.count)).rounded(.up)
        return Double(self.latencies[max(0, min(self.latencies.count - 1, Int(rank) - 1))]) / 1e6
    }

    /// The report as JSON.
    package var json: JSONObject {
        var latency: JSONObject = ["sends": .integer(self.latencies.count)]
        for (name, percentile) in [("p50", 50.0), ("p90", 90), ("p99", 99), ("max", 100)] {
            latency[name] = self.latency(percentile: percentile).map { NumberText.json($0, 3) } ?? JSONValue.null
        }
        return [
            "devices": .integer(self.devices),
            "dead_tokens": .integer(self.dead),
            "registration_seconds": NumberText.json(self.registrationSeconds, 3),
            "sends": .array(self.sends.map { .object($0.json) }),
            "pruned": .integer(self.pruned),
            "lost": .integer(self.audit.lost),
            "repeated": .integer(self.audit.repeated),
            "unexpected": .integer(self.audit.unexpected),
            "repeated_max": .integer(self.repeatedMax),
            "redis": .array(self.redis.map { .string($0) }),
            "left_in_streams": .integer(self.leftInStreams),
            "dispatcher_cpu_seconds_per_million": NumberText.json(self.dispatcherSecondsPerMillion, 2),
            "latency_ms": .object(latency),
            "simulator": .string(self.isStrict ? "strict" : "fast"),
            "build": .string(self.isOptimised ? "release" : "debug"),
            "machine": .object(self.machine.json),
            "complaints": .array(self.complaints.map { .string($0) }),
        ]
    }

    /// The report as lines.
    package var lines: [String] {
        var table = TextTable([
            "SEND", ">RECIPIENTS", ">ACCEPTED", ">UNREGISTERED", ">FAILED", ">SECONDS", ">PER SECOND",
        ])
        for row in self.sends where row.refusal == nil {
            table.add([
                row.name, NumberText.grouped(row.recipients), NumberText.grouped(row.accepted),
                NumberText.grouped(row.unregistered), NumberText.grouped(row.failed),
                NumberText.decimal(row.elapsedSeconds, 3), NumberText.rate(row.ratePerSecond),
            ])
        }
        var lines = table.lines
        for row in self.sends {
            if let refusal = row.refusal { lines.append("\(row.name)  refused as it should be: \(refusal)") }
        }
        let rate = NumberText.rate(Double(self.devices) / max(self.registrationSeconds, 0.001))
        lines += [
            "",
            "devices     \(NumberText.grouped(self.devices)) registered over HTTP, \(rate)/s",
            "pruned      \(NumberText.grouped(self.pruned)) of \(NumberText.grouped(self.dead)) dead tokens",
            "lost        \(NumberText.grouped(self.audit.lost))    by (send, token), audience against the simulator's ledger",
            "repeated    \(NumberText.grouped(self.audit.repeated))"
                + (self.repeatedMax > 0
                    ? "    of \(NumberText.grouped(self.repeatedMax)) that a killed master may cost" : ""),
        ]
        lines += self.redis.map { "redis       \($0)" }
        if let p50 = self.latency(percentile: 50), let p99 = self.latency(percentile: 99) {
            lines.append(
                "latency     p50 \(NumberText.decimal(p50, 2)) ms, p99 \(NumberText.decimal(p99, 2)) ms from publication "
                    + "to acceptance, \(NumberText.grouped(self.latencies.count)) single sends"
            )
        }
        lines.append(
            "processor   \(NumberText.decimal(self.dispatcherSecondsPerMillion, 1)) s of the dispatcher for a million "
                + "accepted (\(self.isStrict ? "strict" : "fast") simulator, \(self.isOptimised ? "release" : "debug") build)"
        )
        let memory = NumberText.decimal(Double(self.machine.memoryBytes) / 1e9, 0)
        lines.append("machine     \(self.machine.processor), \(self.machine.cores) cores, \(memory) GB")
        return lines
    }
}
