package import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTerminal

/// The result of a drill.
package struct DrillReport: Hashable, Sendable {
    /// The drill's name.
    package var name: String
    /// The size of the drill.
    package var size: Drill.Size
    /// The seed of its random times.
    package var seed: UInt64
    /// The number of devices of the audience.
    package var devices = 0
    /// The number of living devices that were never accepted.
    package var lost = 0
    /// The number of acceptances beyond the first one of a device.
    package var repeated = 0
    /// The number of acceptances outside of the audience.
    package var strangers = 0
    /// The number of living devices that are no longer in the store.
    package var wronglyDeleted = 0
    /// The maximum number of repetitions.
    package var bound = 0
    /// The times from each kill until the dead process owned nothing any more; empty without kills.
    package var takeoverSeconds: [Double] = []
    /// The number of planned recipients.
    package var planned: UInt64 = 0
    /// The number of recipients that the ledger counts as accepted.
    package var accepted: UInt64 = 0
    /// The numbers of recipients in the ledger, by outcome.
    package var ledger: [Outcome: UInt64] = [:]
    /// The acceptances per second, from the first to the last.
    package var ratePerSecond = 0.0
    /// The maximum number of unrecorded recipients, per route and event loop.
    package var window = 0
    /// The interval at which progress is recorded.
    package var flushMilliseconds: Int64 = 0
    /// The duration, including the set-up.
    package var seconds = 0.0
    /// The largest repetition of one kill, as a share of its bound.
    package var worstShareOfBound = 0.0
    /// The further figures of this drill.
    package var figures = JSONObject()
    /// The complaints, as sentences.
    package var complaints: [String] = []

    /// Creates an empty report.
    init(name: String, size: Drill.Size, seed: UInt64) {
        self.name = name
        self.size = size
        self.seed = seed
    }

    /// True without complaints.
    package var passed: Bool { self.complaints.isEmpty }

    /// Adds a complaint unless the condition holds.
    mutating func require(_ condition: Bool, _ complaint: String) {
        if !condition { self.complaints.append(complaint) }
    }

    /// Adds the findings of an audit to those of others.
    mutating func add(_ audit: SendAudit) {
        self.lost += audit.lost
        self.repeated += audit.repeated
        self.strangers += audit.strangers
    }

    /// Adds the counts of a ledger to those of others, and checks that they add up.
    mutating func add(_ ledger: SendLedger, of send: String) {
        self.planned += ledger.planned
        self.accepted += ledger.total(.accepted)
        for outcome in Outcome.allCases {
            let count = ledger.total(outcome)
            if count > 0 || outcome == .open { self.ledger[outcome, default: 0] += count }
        }
        // Every planned recipient has one outcome, and none is open.
        let closed = ledger.counts.reduce(0) { $0 + $1.count }
        self.require(
            ledger.planned == closed,
            "the ledger of \(send) does not add up: \(ledger.planned) planned, \(closed) ended",
        )
    }

    /// Adds a complaint if a figure in the long form of a drill is above its maximum: a short form runs where other things do, too.
    mutating func require(_ figure: String, atMost most: Int) {
        guard self.size == .long, let value = self.figures[figure]?.int64 else { return }
        self.require(value <= most, "\(figure) is \(value), at most \(most) may be")
    }

    /// Checks the requirements of every drill.
    mutating func checkCommonRequirements() {
        self.require(self.lost == 0, "\(self.lost) were lost")
        self.require(self.strangers == 0, "\(self.strangers) were accepted outside of the audience")
        self.require(self.wronglyDeleted == 0, "\(self.wronglyDeleted) devices were deleted that are alive")
        self.require(self.repeated <= self.bound, "\(self.repeated) were repeated, at most \(self.bound) may be")
    }

    // MARK: Formatting

    /// The report as JSON.
    package var json: JSONObject {
        var ledger = JSONObject()
        for (outcome, count) in self.ledger.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            ledger[outcome.name] = .integer(count)
        }
        return [
            "name": .string(self.name), "size": .string(self.size.rawValue), "seed": .integer(self.seed),
            "passed": .bool(self.passed),
            "devices": .integer(self.devices), "lost": .integer(self.lost), "repeated": .integer(self.repeated),
            "bound": .integer(self.bound), "strangers": .integer(self.strangers),
            "wrongly_deleted": .integer(self.wronglyDeleted),
            "takeover_seconds": self.takeoverSeconds.max().map { NumberText.json($0, 3) } ?? .null,
            "takeovers": .array(self.takeoverSeconds.map { NumberText.json($0, 3) }),
            "planned": .integer(self.planned), "accepted": .integer(self.accepted), "ledger": .object(ledger),
            "rate": NumberText.json(self.ratePerSecond, 1), "window": .integer(self.window),
            "flush_ms": .integer(self.flushMilliseconds), "seconds": NumberText.json(self.seconds, 1),
            "figures": .object(self.figures), "complaints": .array(self.complaints.map { .string($0) }),
        ]
    }

    /// The report in one line.
    package var line: String {
        var parts = [
            self.passed ? "passed" : "FAILED", self.name, "\(self.devices) devices", "lost \(self.lost)",
            "repeated \(self.repeated) of at most \(self.bound)",
        ]
        if let longest = self.takeoverSeconds.max() {
            parts.append("taken over in \(NumberText.json(longest, 2).text) s")
        }
        parts.append("\(Int(self.ratePerSecond))/s")
        parts += self.figures.members.map { "\($0.name) \($0.value.text)" }
        return parts.joined(separator: "  ")
    }
}
