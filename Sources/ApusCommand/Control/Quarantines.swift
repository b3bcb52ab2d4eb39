package import ApusCore
package import ApusInstallation
package import ApusStore
package import ApusStreams
package import ApusTerminal

/// Lists, confirms and restores quarantined tokens, for `apus quarantine`.
package struct Quarantines: Sendable {
    /// The quarantined tokens of one route.
    package struct Row: Hashable, Sendable {
        /// The route, "<app>/<provider>/<environment>".
        package var route: String
        /// The state of its guard.
        package var state: TokenQuarantine.State
        /// The number of tokens that the provider accepts in its other environment: they are moved there, not deleted.
        package var moving = 0
        /// The number of tokens that are tried again after their wait, not deleted.
        package var retrying = 0
        /// True when nothing is sent on the route.
        package var isPaused: Bool

        /// The row as JSON.
        package var json: JSONObject {
            var object: JSONObject = [
                "route": .string(self.route), "suspects": .integer(self.state.tokens),
                "moving": .integer(self.moving), "retrying": .integer(self.retrying),
                "quarantined": .bool(self.state.quarantinedAt != nil), "paused": .bool(self.isPaused),
            ]
            if let since = self.state.quarantinedAt {
                object["since_ms"] = .integer(since.value)
                object["cause"] = [
                    "suspects": .integer(self.state.causeTokens), "answers": .integer(self.state.causeAnswers),
                    "word": .string(self.state.isForDead ? "dead" : "bad"),
                ]
            }
            return object
        }

        /// The number of tokens whose devices are deleted.
        package var deleting: Int { max(0, self.state.tokens - self.moving - self.retrying) }

        /// The consequences for the tokens, in words, each with their number.
        private var consequences: [(count: Int, words: String)] {
            let other = Route(self.route)?.environment == .sandbox ? "production" : "sandbox"
            return [
                (count: self.deleting, words: "deleted"), (count: self.moving, words: "moved to \(other)"),
                (count: self.retrying, words: "tried again"),
            ].filter { $0.count > 0 }
        }

        /// The pending consequence for the tokens, in words.
        fileprivate var pendingDecision: String {
            let parts = self.consequences
            guard parts.count > 1 else { return "waiting to be \(parts.first?.words ?? "deleted")" }
            return parts.enumerated().map { index, part in
                "\(NumberText.grouped(part.count)) \(index == 0 ? "waiting to be" : "to be") \(part.words)"
            }.joined(separator: ", ")
        }

        /// The consequence of a confirmation for the tokens, in words; empty when there is none.
        fileprivate var confirmedDecision: String {
            let parts = self.consequences.map { "\(NumberText.grouped($0.count)) \($0.words)" }
            return parts.isEmpty ? "" : " (once confirmed: \(parts.joined(separator: ", ")))"
        }
    }

    /// The decisions about quarantined tokens.
    package enum Decision: Hashable, Sendable {
        /// The mistake was ours: messages are sent to the tokens again.
        case restore
        /// The tokens are bad: their devices are deleted, or moved to the environment in which the provider accepts them; those that are never
        /// deleted for their reason are tried again. `undo` says how those that are deleted can be brought back; nil: not at all. `history` is for
        /// what their histories say of it; nil: nothing.
        case confirm(undo: DeviceStore.UndoRules?, history: DeviceStore.HistoryRules?)
    }

    /// The result of a decision on one route.
    package struct Settlement: Hashable, Sendable {
        /// The route, "<app>/<provider>/<environment>".
        package var route: String
        /// The number of tokens that were restored or deleted.
        package var settled = 0
        /// The number of tokens that were moved to the provider's other environment instead.
        package var moved = 0
        /// The number of tokens that are tried again instead.
        package var retried = 0
        /// The number of tokens that were gone, replaced, or registered again.
        package var moot = 0
        /// The number of tokens whose record could not be changed, which stay in quarantine: `apus store check` says more.
        package var failed = 0
        /// True when nothing is sent on the route.
        package var isPaused = false

        /// The number of tokens that were in quarantine.
        package var tokens: Int { self.settled + self.moved + self.retried + self.moot + self.failed }

        /// The result as JSON.
        package var json: JSONObject {
            [
                "route": .string(self.route), "settled": .integer(self.settled),
                "moved": .integer(self.moved), "retried": .integer(self.retried), "moot": .integer(self.moot),
                "failed": .integer(self.failed), "paused": .bool(self.isPaused),
            ]
        }

        /// Returns the result as a line.
        package func line(_ decision: Decision) -> String {
            let done = decision == .restore ? "restored" : "deleted"
            let moved = self.moved > 0 ? ", \(NumberText.grouped(self.moved)) moved to the other environment" : ""
            let retried = self.retried > 0 ? ", \(NumberText.grouped(self.retried)) to be tried again" : ""
            let failed =
                self.failed > 0
                ? ", \(NumberText.grouped(self.failed)) could not be changed and wait on: see `apus store check`, and ask again"
                : ""
            let others =
                moved + retried + (self.moot > 0 ? ", \(NumberText.grouped(self.moot)) needed nothing" : "") + failed
            let end = self.isPaused ? "paused: go on with `apus resume --route \(self.route)`" : "not paused"
            return "\(self.route)  \(NumberText.grouped(self.settled)) \(done)\(others); the route is \(end)"
        }
    }

    private let streams: SendStreams
    private let store: DeviceStore

    /// Creates the quarantines of an installation.
    package init(_ installation: Installation) {
        self.streams = installation.streams
        self.store = installation.store
    }

    /// Returns the routes with quarantined tokens, or with a stopped guard.
    package func rows() async throws -> [Row] {
        var rows: [Row] = []
        for route in try await self.streams.routes.all() {
            let state = try await self.streams.quarantine.state(of: route.number)
            guard state.tokens > 0 || state.quarantinedAt != nil else { continue }
            let isPaused = try await self.streams.routes.state(of: route.number).isPaused
            let counts = try await self.counts(route.number, Route(route.name)?.provider)
            rows.append(
                Row(
                    route: route.name,
                    state: state,
                    moving: counts.moving,
                    retrying: counts.retrying,
                    isPaused: isPaused
                )
            )
        }
        return rows
    }

    private func counts(_ route: RouteNumber, _ provider: Provider?) async throws -> (moving: Int, retrying: Int) {
        var (first, moving, retrying) = (0, 0, 0)
        while true {
            let page = try await self.streams.quarantine.tokens(of: route, from: first)
            moving += page.count { $0.isOfOtherEnvironment }
            if let provider { retrying += page.count { $0.isKept(by: provider) } }
            guard page.count == StreamLimits.quarantinedTokensPerCallMax else { return (moving, retrying) }
            first += page.count
        }
    }

    /// Settles all quarantined tokens of the named routes, and ends their quarantine, unless a token could not be settled: then it stays
    /// there, and the route as it is. After that, or an interruption, it is completed by a repetition.
    ///
    /// - Parameters:
    ///   - name: "app/provider" for every environment, or "app/provider/environment".
    ///   - resuming: true to resume a route that the guard stopped.
    /// - Throws: `CommandFailure` when there is no such route.
    package func settle(
        _ name: String,
        _ decision: Decision,
        resuming: Bool,
        by someone: Operator,
    ) async throws -> [Settlement] {
        var settlements: [Settlement] = []
        for numbered in try await self.streams.routes.all(named: name) {
            let (number, name) = (numbered.number, numbered.name)
            guard let route = Route(name) else { continue }
            var settlement = Settlement(route: name)
            let word = decision == .restore ? "restore" : "confirm"
            try await self.streams.audit.record(
                AuditEntry("quarantine.\(word)", of: name, app: route.app.text, by: someone)
            )
            repeat {
                try await self.settleAll(number, route, decision, &settlement)
                // Tokens that were quarantined meanwhile are settled, too.
            } while try await self.streams.quarantine.end(number, resuming: resuming) > settlement.failed
            settlement.isPaused = try await self.streams.routes.state(of: number).isPaused
            settlements.append(settlement)
        }
        return settlements
    }

    private func settleAll(
        _ number: RouteNumber,
        _ route: Route,
        _ decision: Decision,
        _ settlement: inout Settlement,
    ) async throws {
        settlement.failed = 0
        while true {
            // Those that have waited longest come first, so the failed ones stand before the rest.
            let page = try await self.streams.quarantine.tokens(of: number, from: settlement.failed)
            guard !page.isEmpty else { return }
            let results = try await forEachConcurrently(page) { suspect -> VerdictResult? in
                do throws(StoreError) {
                    return try await self.apply(decision, to: suspect, on: route)
                } catch {
                    guard error.isOfOneDevice else { throw error }
                    return nil
                }
            }
            var settled: [QuarantinedToken] = []
            for (suspect, result) in zip(page, results) {
                guard let result else {
                    settlement.failed += 1
                    continue
                }
                settled.append(suspect)
                switch result {
                case .applied where decision != .restore && suspect.isOfOtherEnvironment: settlement.moved += 1
                case .applied where decision != .restore && suspect.isKept(by: route.provider): settlement.retried += 1
                case .applied: settlement.settled += 1
                case .unchanged, .newerRegistration, .tokenChanged, .gone: settlement.moot += 1
                }
            }
            if !settled.isEmpty { try await self.streams.quarantine.remove(settled, of: number) }
        }
    }

    private func apply(
        _ decision: Decision,
        to suspect: QuarantinedToken,
        on route: Route,
    ) async throws(StoreError) -> VerdictResult {
        guard case .confirm(let undo, let history) = decision, !suspect.isKept(by: route.provider) else {
            return try await self.store.clearSuspect(route, suspect.reference, tokenDigest: suspect.tokenDigest)
        }
        let event = history.map { DeviceStore.RemovalEvent(HistoryEvent(.pruned, of: suspect, on: route), $0) }
        return try await self.store.settle(suspect, on: route, undo: undo, event: event)
    }

    /// Returns the rows as a table.
    package static func table(_ rows: [Row], now: UnixMilliseconds) -> TextTable {
        var table = TextTable(["ROUTE", ">SUSPECTS", "STATE", "BECAUSE"])
        for row in rows {
            var words = [row.pendingDecision]
            var cause = ""
            if let since = row.state.quarantinedAt {
                let age = NumberText.age(milliseconds: now.milliseconds(since: since))
                words = ["in quarantine for \(age)\(row.confirmedDecision)"]
                let suspects = NumberText.grouped(row.state.causeTokens)
                let word = row.state.isForDead ? "dead" : "bad"
                cause = "\(suspects) of \(NumberText.grouped(row.state.causeAnswers)) answers called a token \(word)"
            }
            if row.isPaused { words.append("paused") }
            table.add([
                row.route, NumberText.grouped(row.state.tokens), words.joined(separator: ", "), cause,
            ])
        }
        return table
    }
}
