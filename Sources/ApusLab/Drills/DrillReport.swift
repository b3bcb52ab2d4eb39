internal import ApusConsole
package import ApusCore
internal import ApusMessages
internal import ApusStreams

/// The result of a drill.
package struct DrillReport: Hashable, Sendable {
    /// The drill's name.
    package var name: String
    /// True when it was the short or the long form.
    package var size: Drill.Size
    /// What its random moments were drawn from.
    package var seed: UInt64
    /// Devices of the audience.
    package var devices = 0
    /// Living devices that were never accepted.
    package var lost = 0
    /// Acceptances beyond the first one of a device.
    package var repeated = 0
    /// Acceptances that nobody asked for.
    package var strangers = 0
    /// Living devices that are not in the store any more.
    package var wronglyDeleted = 0
    /// How often at most something may be repeated.
    package var bound = 0
    /// From each kill until the dead one owned nothing any more; empty: nobody was killed.
    package var takeoverSeconds: [Double] = []
    /// Recipients that were planned.
    package var planned: UInt64 = 0
    /// Recipients that the ledger counts as accepted.
    package var accepted: UInt64 = 0
    /// Recipients that the ledger counts, by outcome.
    package var ledger: [Outcome: UInt64] = [:]
    /// Acceptances per second, from the first to the last.
    package var ratePerSecond = 0.0
    /// Recipients that may be unwritten at once, per route and event loop.
    package var window = 0
    /// How often progress is written.
    package var flushMilliseconds: Int64 = 0
    /// How long it took, setting up included.
    package var seconds = 0.0
    /// The most that one kill repeated, as a share of what it may.
    package var worstShareOfBound = 0.0
    /// Further figures of this drill.
    package var figures = JSONObject()
    /// What is wrong, in sentences.
    package var complaints: [String] = []

    /// Nothing found yet.
    init(name: String, size: Drill.Size, seed: UInt64) {
        self.name = name
        self.size = size
        self.seed = seed
    }

    /// True when nothing is wrong.
    package var passed: Bool { self.complaints.isEmpty }

    /// Adds a complaint unless the condition holds.
    mutating func require(_ condition: Bool, _ complaint: String) {
        if !condition { self.complaints.append(complaint) }
    }

    /// Takes over what an audit found, in addition to what others did.
    mutating func add(_ audit: SendAudit) {
        self.lost += audit.lost
        self.repeated += audit.repeated
        self.strangers += audit.strangers
    }

    /// Takes over what a ledger counts, in addition to what others did, and checks that it adds up.
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

    /// Checks what every drill must keep.
    mutating func checkCommonRequirements() {
        self.require(self.lost == 0, "\(self.lost) were lost")
        self.require(self.strangers == 0, "\(self.strangers) were accepted that nobody asked for")
        self.require(self.wronglyDeleted == 0, "\(self.wronglyDeleted) devices were deleted that are alive")
        self.require(self.repeated <= self.bound, "\(self.repeated) were repeated, at most \(self.bound) may be")
    }

    // MARK: Telling

    /// As JSON.
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

    /// In one line.
    package var line: String {
        var parts = [
            self.passed ? "passed" : "FAILED", self.name, "\(self.devices) devices", "lost \(self.lost)",
            "repeated \(self.repeated) of at most \(self.bound)",
        ]
        if let longest = self.takeoverSeconds.max() {
            parts.append("taken over in \(NumberText.json(longest, 2).text) s")
        }
        parts.append("\(Int(self.ratePerSecond))/s")
        return parts.joined(separator: "  ")
    }
}
