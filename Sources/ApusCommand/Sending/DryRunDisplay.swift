package import ApusCore
package import ApusDispatcher
internal import ApusInstallation
package import ApusMessages
internal import ApusProviders
internal import ApusService
package import ApusTerminal
internal import Logging
internal import NIOPosix

/// Shows the result of `apus send --dry-run`.
package struct DryRunDisplay: Sendable {
    private let report: DryRunReport

    /// Creates the display of a report.
    package init(_ report: DryRunReport) { self.report = report }

    /// Performs a dry run with the dispatchers' configuration.
    ///
    /// - Throws: `CommandFailure` when the configuration is not valid, or the command would be refused.
    package static func run(
        _ command: SendCommand,
        redis: RedisOptions,
    ) async throws -> DryRunDisplay {
        let settings = try ConfigurationAccess.dispatcher(of: redis.choice())
        return try await RedisAccess.withInstallation(redis) { installation in
            let dryRun = try await DryRun(
                settings.common.apps,
                of: installation,
                clock: SystemClock(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
            )
            do {
                return DryRunDisplay(try await dryRun.run(command, asksProviders: true))
            } catch let problem as Problem {
                throw CommandFailure("the command would be refused: \(problem.code): \(problem)")
            } catch let error as SettingsError {
                throw CommandFailure("\(error)")
            }
        }
    }

    /// True when no provider refuses the notification.
    package var isTaken: Bool {
        self.report.verdicts.allSatisfy { verdict in
            if case .refused = verdict.word { false } else { true }
        }
    }

    private var recipients: JSONValue { self.report.holder == nil ? .integer(self.report.recipients) : .null }

    /// The report as JSON.
    package var json: JSONObject {
        let audiences = self.report.audiences.map { audience -> JSONValue in
            let count: JSONValue = self.report.holder == nil ? .integer(audience.recipients) : .null
            return ["route": .string(audience.route.description), "recipients": count]
        }
        let closed = self.report.closed.map { count -> JSONValue in
            [
                "provider": .string(count.provider.name), "outcome": .string(count.outcome.name),
                "reason": .string(count.reason.name), "recipients": .integer(count.count),
            ]
        }
        let renderings = self.report.renderings.map { rendering -> JSONValue in
            var headers = JSONObject()
            for header in rendering.headers { headers[header.name] = .string(header.value) }
            return [
                "route": .string(rendering.route.description), "locale": .string(rendering.locale),
                "headers": .object(headers), "payload": .string(rendering.payload),
                "payload_bytes": .integer(rendering.payloadBytes),
                "payload_bytes_max": .integer(rendering.payloadBytesMax),
            ]
        }
        let lints = self.report.lints.map { lint -> JSONValue in
            ["code": .string(lint.code), "field": .string(lint.field), "detail": .string(lint.detail)]
        }
        let verdicts = self.report.verdicts.map { verdict -> JSONValue in
            let (taken, reason): (JSONValue, String) =
                switch verdict.word {
                case .taken: (true, "")
                case .refused(let reason): (false, reason)
                case .unknown(let reason), .unanswered(let reason): (.null, reason)
                }
            return [
                "route": .string(verdict.route.description), "locale": .string(verdict.locale), "taken": taken,
                "reason": .string(reason),
            ]
        }
        return [
            "recipients": self.recipients, "audiences": .array(audiences),
            "unreachable": .array(closed), "renderings": .array(renderings), "lints": .array(lints),
            "verdicts": .array(verdicts),
        ]
    }

    /// The report as lines.
    package var lines: [String] {
        var audience = TextTable(["ROUTE", ">RECIPIENTS"])
        for row in self.report.audiences {
            let held = self.report.holder.map { "unknown: \($0.name) holds the audience" }
            audience.add(["\(row.route)", held ?? NumberText.grouped(row.recipients)])
        }
        for count in self.report.closed {
            audience.add(["\(count.provider.name): \(count.reason.name)", NumberText.grouped(count.count)])
        }
        var lines = audience.lines
        for rendering in self.report.renderings {
            let locale = rendering.locale.isEmpty ? "" : " \(rendering.locale)"
            lines.append("")
            lines.append("\(rendering.route)\(locale): \(rendering.payloadBytes) of \(rendering.payloadBytesMax) bytes")
            lines += rendering.headers.map { "\($0.name): \($0.value)" }
            lines.append(rendering.payload)
        }
        if !self.report.lints.isEmpty || !self.report.verdicts.isEmpty { lines.append("") }
        lines += self.report.lints.map { "\($0.code): \($0)" }
        lines += self.report.verdicts.map { verdict in
            let place = verdict.locale.isEmpty ? "\(verdict.route)" : "\(verdict.route) \(verdict.locale)"
            return switch verdict.word {
            case .taken: "\(place): the provider accepts it"
            case .refused(let reason): "\(place): the provider: \(reason)"
            case .unknown(let reason): "\(place): unknown, because the tested tokens are dead: \(reason)"
            case .unanswered(let reason): "\(place): unknown, because the provider gave no answer: \(reason)"
            }
        }
        return lines
    }
}
