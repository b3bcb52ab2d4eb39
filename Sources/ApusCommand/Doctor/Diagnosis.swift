internal import ApusConsole
package import ApusCore

/// The result of `apus doctor`: one line for each check.
package struct Diagnosis: Sendable {
    /// How something is.
    package enum Verdict: String, Hashable, Sendable {
        /// As it should be.
        case ok
        /// It works, but should be otherwise.
        case warn
        /// It does not work, or will lose something.
        case fail
    }

    /// What was looked at.
    package enum Check: String, CaseIterable, Hashable, Sendable {
        /// True when Redis answers, and how fast.
        case connection
        /// Of Redis.
        case version
        /// What a full Redis does.
        case eviction
        /// How full it is.
        case memory
        /// What survives its restart.
        case persistence
        /// True when it takes writes, and who copies them.
        case replication
        /// How many connections it has.
        case clients
        /// How compactly it keeps devices.
        case listpack
        /// How far its clock is from this machine's.
        case clock
        /// Sizes and functions of Apus in it.
        case installation
        /// Whether anybody reads what is written for the services.
        case streams
        /// What the services would say to the configuration.
        case configuration
        /// Keys of identity providers, with which registration verifies.
        case identity
        /// What the providers are shown.
        case credential
        /// The certificate of registration's own listener.
        case certificate
        /// Somebody to whom the services connect.
        case endpoint
    }

    /// One line.
    package struct Finding: Hashable, Sendable {
        /// How it is.
        package var verdict: Verdict
        /// What was looked at.
        package var check: Check
        /// The one: a server, a route; empty: there is one only.
        package var subject: String
        /// What was found.
        package var detail: String
        /// What to do about it; empty when nothing is to be done, or the detail says it.
        package var cure: String

        /// Creates a line.
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

        /// Creates a line about what there is only one of.
        package init(_ verdict: Verdict, _ check: Check, _ detail: String, cure: String = "") {
            self.init(verdict, check, "", detail, cure: cure)
        }

        /// What was found and what to do, as a sentence.
        package var sentence: String { self.cure.isEmpty ? self.detail : "\(self.detail). \(self.cure)" }
    }

    /// In the order in which it was looked.
    package var findings: [Finding]

    /// Creates a diagnosis.
    package init(_ findings: [Finding] = []) { self.findings = findings }

    /// How many lines say so.
    package func count(_ verdict: Verdict) -> Int { self.findings.count { $0.verdict == verdict } }

    /// As lines; a cure stands below what it cures.
    package var lines: [String] {
        var table = TextTable(["", "CHECK", "OF", "FOUND"])
        for finding in self.findings {
            table.add([finding.verdict.rawValue, finding.check.rawValue, finding.subject, finding.detail])
            if !finding.cure.isEmpty { table.add(["", "", "", "→ \(finding.cure)"]) }
        }
        let counts = "\(self.count(.ok)) ok, \(self.count(.warn)) warnings, \(self.count(.fail)) failed"
        return table.lines + ["", counts]
    }

    /// As JSON.
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
