package import ApusCore
package import ApusStore
internal import ApusTerminal

/// Reports the consistency of the store, for `apus store check`.
package struct StoreReport: Sendable {
    private let check: StoreCheck
    private let upkeep: UpkeepReport?

    /// Creates the report of a check, and of the repairs before it.
    package init(_ check: StoreCheck, after upkeep: UpkeepReport? = nil) {
        self.check = check
        self.upkeep = upkeep
    }

    /// Checks an app; with `repairs`, repairs what the records decide and checks again.
    package static func run(
        _ store: DeviceStore,
        _ app: AppID,
        repairs: Bool,
        progressed: (Int, Int) -> Void,
    ) async throws -> StoreReport {
        let check = try await StoreCheck.run(store, app, progressed: progressed)
        guard repairs, !check.findings.isEmpty else { return StoreReport(check) }
        let upkeep = try await store.repair(check.findings, of: app)
        return StoreReport(try await StoreCheck.run(store, app, progressed: progressed), after: upkeep)
    }

    /// True when the store is consistent.
    package var isClean: Bool { self.check.findings.isEmpty }

    /// True when there is no device and nothing else of the app.
    package var isEmpty: Bool { self.isClean && self.check.deviceCount == 0 && self.check.badges == 0 }

    /// The report as JSON.
    package var json: JSONObject {
        var json: JSONObject = [
            "devices": .integer(self.check.deviceCount), "subscriptions": .integer(self.check.subscriptions),
            "badges": .integer(self.check.badges), "stale_hints": .integer(self.check.staleHints),
            "unsettled_tokens": .integer(self.check.unsettledTokens),
            "unencrypted": .integer(self.check.unencrypted),
            "problems": .array(self.check.problems.map { .string($0) }),
        ]
        if let upkeep { json["repaired"] = .integer(upkeep.ordinals + upkeep.hints) }
        return json
    }

    /// The report as lines.
    package var lines: [String] {
        let check = self.check
        var lines = check.problems
        if let upkeep { lines.append("\(upkeep.ordinals + upkeep.hints) places repaired") }
        lines.append(
            "\(NumberText.grouped(check.deviceCount)) devices, \(NumberText.grouped(check.subscriptions)) subscriptions, "
                + "\(NumberText.grouped(check.badges)) badges: "
                + (self.isClean ? "clean" : "\(NumberText.grouped(check.findings.count)) problems")
        )
        if check.staleHints + check.unsettledTokens > 0 {
            lines.append(
                "\(check.staleHints) hints without a record, \(check.unsettledTokens) unsettled tokens: they are in progress, "
                    + "or left by a crash; registration's clean-up removes them"
            )
        }
        if check.unencrypted > 0 {
            lines.append(
                "\(NumberText.grouped(check.unencrypted)) records are not encrypted with the current key: registration's "
                    + "clean-up encrypts them"
            )
        }
        return lines
    }
}
