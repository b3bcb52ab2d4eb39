package import ApusCore
internal import ApusTerminal

/// The result of `apus doctor`: one line for each check.
package struct Diagnosis: Sendable {
    /// The severities of findings.
    package enum Verdict: String, Hashable, Sendable {
        /// The subject is in order.
        case ok
        /// The subject works, but should be changed.
        case warn
        /// The subject does not work, or will lose data.
        case fail
    }

    /// The subjects of checks.
    package enum Check: String, CaseIterable, Hashable, Sendable {
        /// Redis answers, and how fast.
        case connection
        /// A Sentinel, and the master that it names.
        case sentinel
        /// The nodes of a Redis Cluster together.
        case cluster
        /// The version of Redis.
        case version
        /// The behaviour of a full Redis.
        case eviction
        /// The used memory of Redis.
        case memory
        /// The data that survives a restart of Redis.
        case persistence
        /// The role of the server, and its replicas.
        case replication
        /// The number of connections of Redis.
        case clients
        /// The compactness of stored devices.
        case listpack
        /// The difference between Redis' clock and this machine's.
        case clock
        /// The sizes and functions of Apus in Redis.
        case installation
        /// The processes of the services.
        case services
        /// The routes, and what holds them back.
        case routes
        /// The reading of the streams that the services consume.
        case streams
        /// The configuration, as the services would read it.
        case configuration
        /// The keys of identity providers, with which registration verifies tokens.
        case identity
        /// The credentials for the providers.
        case credential
        /// The certificate of registration's own listener.
        case certificate
        /// An endpoint that the services connect to.
        case endpoint
    }

    /// A finding, shown as one line.
    package struct Finding: Hashable, Sendable {
        /// The severity.
        package var verdict: Verdict
        /// The subject.
        package var check: Check
        /// The server, route or other instance; empty when there is only one.
        package var subject: String
        /// The finding.
        package var detail: String
        /// The remedy; empty when there is none, or when the detail holds it.
        package var cure: String

        /// Creates a finding.
        package init(
            _ verdict: Verdict,
            _ check: Check,
            _ subject: String,
            _ detail: String,
            cure: String = "",
        ) {
            self.verdict = verdict
            self.check = check
            self.subject = subject
            self.detail = detail
            self.cure = cure
        }

        /// Creates a finding about a subject of which there is only one.
        package init(_ verdict: Verdict, _ check: Check, _ detail: String, cure: String = "") {
            self.init(verdict, check, "", detail, cure: cure)
        }

        /// The finding and its remedy as a sentence.
        package var sentence: String { self.cure.isEmpty ? self.detail : "\(self.detail). \(self.cure)" }
    }

    /// The findings in the order of the checks.
    package var findings: [Finding]

    /// Creates a diagnosis.
    package init(_ findings: [Finding] = []) { self.findings = findings }

    /// Returns the number of findings with a severity.
    package func count(_ verdict: Verdict) -> Int { self.findings.count { $0.verdict == verdict } }

    /// The findings as lines, each with its remedy below.
    package var lines: [String] {
        var table = TextTable(["", "CHECK", "OF", "FOUND"])
        for finding in self.findings {
            table.add([finding.verdict.rawValue, finding.check.rawValue, finding.subject, finding.detail])
            if !finding.cure.isEmpty { table.add(["", "", "", "→ \(finding.cure)"]) }
        }
        let warnings = NumberText.counted(self.count(.warn), "warning", "warnings")
        let counts = "\(self.count(.ok)) ok, \(warnings), \(self.count(.fail)) failed"
        return table.lines + ["", counts]
    }

    /// The findings as JSON.
    package var json: JSONObject {
        let findings = self.findings.map { finding -> JSONValue in
            var object: JSONObject = [
                "verdict": .string(finding.verdict.rawValue), "check": .string(finding.check.rawValue),
                "detail": .string(finding.detail),
            ]
            if !finding.subject.isEmpty { object["of"] = .string(finding.subject) }
            if !finding.cure.isEmpty { object["cure"] = .string(finding.cure) }
            return .object(object)
        }
        return [
            "ok": .integer(self.count(.ok)), "warnings": .integer(self.count(.warn)),
            "failed": .integer(self.count(.fail)), "findings": .array(findings),
        ]
    }
}
