import Testing

/// Tests `apus-fleet`: the simulation of a whole fleet from one seed.
@Suite(.serialized) struct SimulationTests {
    private static func fleet(_ arguments: [String]) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(arguments, program: "apus-fleet")
    }

    /// Each run draws other seeds. One that fails is printed with its command, made as small as it gets.
    @Test func `Fresh seeds find nothing that must not happen`() throws {
        let answer = try Self.fleet(["--seed", "\(UInt32.random(in: 0 ... .max))", "--seeds", "8"])
        #expect(answer.code == 0, "\(answer.lines.joined(separator: "\n"))\n\(answer.talk)")
        #expect(answer.lines.last == "8 seeds, none failed")
    }

    @Test func `The same seed does the same again, and another does not`() throws {
        func log(_ seed: Int) throws -> [String] {
            let answer = try Self.fleet(["--seed", "\(seed)", "--log", "info", "--devices", "20"])
            #expect(answer.code == 0)
            // The last line has the real seconds.
            return answer.lines.dropLast()
        }
        let first = try log(5)
        #expect(first.count > 20)
        #expect(try log(5) == first)
        #expect(try log(6) != first)
    }

    @Test func `Wrong words are told`() throws {
        for arguments in [
            ["--without", "nothing"], ["--with", "nothing"], ["--mutation", "nothing"], ["--devices", "0"],
        ] {
            let answer = try Self.fleet(arguments)
            #expect(answer.code == 64 && !answer.talk.isEmpty)
        }
    }

    /// A fault, the seed that found it when this was written, what is said of it (one of several, with `|` between them), and what else is
    /// asked for.
    private struct PlantedFault: Sendable, CustomTestStringConvertible {
        let mutation: String
        let seed: Int
        let complaint: String
        var further: [String] = []

        var testDescription: String { self.mutation }
    }

    /// The kinds of events after which something may be sent twice.
    private static let causes = "kill,freeze,cut,late,silence,goaway,clock,redis-loss,own-clock,route"

    /// The requests of devices, and what strikes down those who handle them.
    private static let requests = "kill,freeze,login,logout,delete,reinstall,topic,rotate"

    private static let faults = [
        PlantedFault(
            mutation: "stranger",
            seed: 4,
            complaint: "which was",
            further: ["--with", "login,pause,topic", "--without", "cancel"]
        ),
        PlantedFault(mutation: "no-journal", seed: 1, complaint: "without an end"),
        PlantedFault(mutation: "no-retry", seed: 5, complaint: "without an end"),
        PlantedFault(mutation: "no-outcomes", seed: 1, complaint: "without an end"),
        PlantedFault(mutation: "published-twice", seed: 6, complaint: "ends: "),
        PlantedFault(mutation: "user-twice", seed: 1, complaint: "without a cause"),
        PlantedFault(
            mutation: "no-marks",
            seed: 4,
            complaint: "at most once, reached|outcomes of",
            further: ["--with", "kill,slow", "--devices", "60"]
        ),
        PlantedFault(mutation: "stranded-route", seed: 25, complaint: "without an end"),
        PlantedFault(
            mutation: "unfenced-unit",
            seed: 12,
            complaint: "outcomes of",
            further: ["--with", "freeze,slow,refuse"]
        ),
        PlantedFault(
            mutation: "no-mark",
            seed: 6,
            complaint: "reached d",
            further: ["--with", "redis-loss,copy-lag,cancel"]
        ),
        PlantedFault(
            mutation: "no-amnesty",
            seed: 1,
            complaint: "reached",
            further: ["--with", "redis-script", "--without", Self.causes]
        ),
        PlantedFault(
            mutation: "frozen-leases",
            seed: 11,
            complaint: "without an end",
            further: ["--with", "own-clock,kill"]
        ),
        PlantedFault(
            mutation: "older-registration",
            seed: 1,
            complaint: "never reached",
            further: ["--with", Self.requests]
        ),
        PlantedFault(
            mutation: "forgotten-removal",
            seed: 74,
            complaint: "must be one of",
            further: ["--with", Self.requests]
        ),
        PlantedFault(
            mutation: "kept-user",
            seed: 1,
            complaint: "hints that no record bears out",
            further: ["--with", Self.requests]
        ),
        PlantedFault(
            mutation: "shared-token",
            seed: 2,
            complaint: "must be one of",
            further: ["--with", Self.requests]
        ),
    ]

    /// Faults that were once in the product, or that a protection keeps out of it. Since the seeds were found, what happens in one may have
    /// changed, so the next ones count, too.
    @Test(arguments: Self.faults)
    private func `A fault that is put in on purpose is found`(_ fault: PlantedFault) throws {
        for seed in fault.seed..<(fault.seed + 20) {
            let words = ["--seed", "\(seed)", "--mutation", fault.mutation] + fault.further
            let answer = try Self.fleet(words)
            guard answer.code != 0 else { continue }
            let complaints = fault.complaint.split(separator: "|")
            let isTold = answer.lines.contains { line in complaints.contains { line.contains($0) } }
            #expect(answer.code == 1 && isTold, "\(answer.lines)")
            return
        }
        Issue.record("20 seeds from \(fault.seed) on have not found \(fault.mutation)")
    }
}
