package import ApusCore
package import ApusDispatcher
package import ApusInstallation
package import ApusService
package import ApusTerminal
internal import Logging
internal import NIOPosix

/// Reports the state of credentials, for `apus credentials check`.
package struct CredentialReport: Sendable {
    /// The findings, route by route.
    package let findings: [CredentialCheck.Finding]

    /// Creates a report of those findings.
    package init(_ findings: [CredentialCheck.Finding]) { self.findings = findings }

    /// Reads the dispatchers' configuration and checks every credential that it names.
    ///
    /// - Parameter redis: the installation whose dispatchers share their provider tokens.
    /// - Throws: `CommandFailure` when the configuration is not valid.
    package static func make(redis: RedisOptions, asksProviders: Bool) async throws -> CredentialReport {
        let settings = try ConfigurationAccess.dispatcher(of: redis.choice())
        return try await RedisAccess.withInstallation(redis) { installation in
            try await Self.make(settings.common.apps, of: installation, asksProviders: asksProviders)
        }
    }

    /// Checks every credential of the given apps.
    package static func make(
        _ apps: [AppID: AppSettings],
        of installation: Installation,
        asksProviders: Bool,
    ) async throws -> CredentialReport {
        let check = try await CredentialCheck(
            apps,
            of: installation,
            clock: SystemClock(),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
        )
        return CredentialReport(await check.run(asksProviders: asksProviders))
    }

    /// The number of credentials that cannot be used or could not be tested.
    package var failures: Int { self.findings.filter { !Self.isUsable($0.verdict) }.count }

    private static func isUsable(_ verdict: CredentialCheck.Finding.Verdict) -> Bool {
        switch verdict {
        case .taken, .usable, .unasked: true
        case .refused, .unanswered: false
        }
    }

    private static func words(_ verdict: CredentialCheck.Finding.Verdict) -> (name: String, detail: String) {
        switch verdict {
        case .taken: ("taken", "")
        case .usable: ("usable", "")
        case .unasked: ("usable", "push services cannot be asked without a subscription")
        case .refused(let reason): ("refused", reason)
        case .unanswered(let reason): ("unanswered", reason)
        }
    }

    /// The report as JSON.
    package var json: JSONObject {
        let routes = self.findings.map { finding -> JSONValue in
            let words = Self.words(finding.verdict)
            var object: JSONObject = [
                "route": .string(finding.route.description), "credential": .string(finding.credential),
                "verdict": .string(words.name),
            ]
            if !words.detail.isEmpty { object["reason"] = .string(words.detail) }
            if let cure = finding.cure { object["cure"] = .string(cure) }
            if let doubt = finding.doubt { object["doubt"] = .string(doubt) }
            if let expiresAt = finding.expiresAt { object["expires_ms"] = .integer(expiresAt.value) }
            return .object(object)
        }
        return ["routes": .array(routes)]
    }

    /// Returns the report as a table.
    package func table(now: UnixMilliseconds) -> TextTable {
        var table = TextTable(["ROUTE", "CREDENTIAL", "EXPIRES IN", "VERDICT"])
        for finding in self.findings {
            let words = Self.words(finding.verdict)
            let expiry = finding.expiresAt.map { NumberText.age(milliseconds: $0.milliseconds(since: now)) } ?? "-"
            table.add([
                finding.route.description, finding.credential, expiry,
                ([words.detail.isEmpty ? words.name : "\(words.name): \(words.detail)", finding.cure, finding.doubt]
                    as [String?])
                    .compactMap { $0 }.joined(separator: ". "),
            ])
        }
        return table
    }
}
