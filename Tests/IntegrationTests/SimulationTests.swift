import Testing

/// Tests `apus-fleet`: the simulation of a whole fleet from one seed.
@Suite(.serialized) struct SimulationTests {
    private static func fleet(_ arguments: [String]) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(arguments, program: "apus-fleet")
    }

    /// Each run draws other seeds. One that fails is printed with its command, made as small as it gets.
    @Test func `Fresh seeds find nothing that must not happen`() throws {
        let answer = try Self.fleet(["--seed", "\(UInt32.random(in: 0 ... .max))", "--seeds", "6"])
        #expect(answer.code == 0, "\(answer.lines.joined(separator: "\n"))\n\(answer.talk)")
        #expect(answer.lines.last == "6 seeds, none failed")
    }

    @Test func `The same seed does the same again, and another does not`() throws {
        func log(_ seed: Int) throws -> [String] {
            let answer = try Self.fleet(["--seed", "\(seed)", "--log", "info", "--devices", "20", "--with", "stop"])
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

    /// A fault, what is said of it (one of several, with `|` between them), what may happen beside it, and a seed that found it when this was
    /// written.
    private struct PlantedFault: Sendable, CustomTestStringConvertible {
        let mutation: String
        let complaint: String
        var words: [String]
        var seed = 1
        /// The seconds within which everything must have ended after the last fault.
        var endSeconds = 120

        var testDescription: String { self.mutation }
    }

    /// The requests of devices, and what strikes down those who handle them, often.
    private static let requests = [
        "--only", "kill,freeze,login,logout,delete,reinstall,topic,rotate", "--every", "1",
    ]

    private static let faults = [
        PlantedFault(
            mutation: "stranger",
            complaint: "which was",
            words: ["--only", "login,pause,topic", "--every", "2"],
            seed: 3
        ),
        PlantedFault(
            mutation: "no-journal",
            complaint: "without an end|outcomes of",
            words: ["--only", "kill,slow", "--every", "2"]
        ),
        // A provider that is unavailable is asked again after two minutes.
        PlantedFault(
            mutation: "no-retry",
            complaint: "without an end",
            words: ["--only", "refuse", "--every", "3"],
            endSeconds: 600
        ),
        PlantedFault(mutation: "no-outcomes", complaint: "without an end", words: ["--only", "kill", "--every", "3"]),
        PlantedFault(
            mutation: "published-twice",
            complaint: "ends: |receipts of one id",
            words: ["--only", "again", "--every", "1"]
        ),
        PlantedFault(
            mutation: "admitted-twice",
            complaint: "ends: |without a cause",
            words: ["--only", "again", "--every", "1", "--sends", "40"],
            seed: 5
        ),
        // Faults that may repeat something strike, but at other times.
        PlantedFault(
            mutation: "user-twice",
            complaint: "without a cause|at most once|and lists",
            words: ["--with", "kill,freeze,cut,silence,clock"]
        ),
        PlantedFault(
            mutation: "no-handover",
            complaint: "without a cause",
            words: ["--only", "stop,slow", "--every", "1"]
        ),
        PlantedFault(
            mutation: "unpaused-send",
            complaint: "while it was paused",
            words: ["--only", "hold,refuse", "--every", "1"],
            endSeconds: 600
        ),
        PlantedFault(
            mutation: "unpaused-route",
            complaint: "which was paused",
            words: ["--only", "pause,slow,redis-down", "--every", "2"]
        ),
        PlantedFault(
            mutation: "fast-pace",
            complaint: "requests in 2 s",
            words: ["--only", "kill", "--every", "5", "--devices", "60"]
        ),
        PlantedFault(
            mutation: "early",
            complaint: "before its time",
            words: ["--only", "slow", "--every", "3", "--sends", "20"]
        ),
        PlantedFault(
            mutation: "unpruned",
            complaint: "said that its token is dead",
            words: ["--only", "uninstall", "--every", "2"]
        ),
        PlantedFault(
            mutation: "unkept",
            complaint: "is not there, and must be one of",
            words: ["--only", "misjudge", "--every", "3"]
        ),
        PlantedFault(
            mutation: "endless-poison",
            complaint: "without an end",
            words: ["--only", "poison", "--every", "2", "--sends", "10"]
        ),
        PlantedFault(
            mutation: "reached-dead",
            complaint: "which has accepted",
            words: ["--only", "uninstall", "--every", "2"]
        ),
        PlantedFault(
            mutation: "no-marks",
            complaint: "at most once, reached|outcomes of",
            words: ["--only", "kill,slow", "--every", "2", "--devices", "60"]
        ),
        PlantedFault(
            mutation: "stranded-route",
            complaint: "without an end",
            words: ["--only", "route,slow,refuse", "--every", "4", "--sends", "30"],
            endSeconds: 600
        ),
        PlantedFault(
            mutation: "unfenced-unit",
            complaint: "outcomes of|without an end|a dead letter",
            words: ["--only", "freeze,slow,refuse,silence", "--every", "1"],
            seed: 20,
            endSeconds: 600
        ),
        PlantedFault(
            mutation: "no-mark",
            complaint: "reached d",
            words: ["--only", "redis-loss,copy-lag,slow,kill", "--every", "1", "--sends", "40", "--devices", "40"],
            seed: 4
        ),
        PlantedFault(
            mutation: "same-id",
            complaint: "without an end",
            words: [
                "--only", "redis-loss,copy-lag,own-clock", "--every", "0.5", "--sends", "80", "--dispatchers", "1",
                "--feedbacks", "1", "--registrations", "1", "--apps", "1",
            ],
            seed: 234
        ),
        PlantedFault(
            mutation: "no-amnesty",
            complaint: "reached",
            words: ["--only", "redis-script,slow", "--every", "3", "--sends", "40", "--devices", "50"],
            seed: 3
        ),
        PlantedFault(
            mutation: "frozen-leases",
            complaint: "without an end",
            words: ["--only", "own-clock,kill,slow", "--every", "1"],
            seed: 8
        ),
        PlantedFault(mutation: "older-registration", complaint: "never reached|must be one of", words: Self.requests),
        PlantedFault(
            mutation: "forgotten-removal",
            complaint: "must be one of",
            words: Self.requests,
            seed: 30
        ),
        PlantedFault(
            mutation: "kept-user",
            complaint: "hints that no record bears out",
            words: Self.requests
        ),
        PlantedFault(mutation: "shared-token", complaint: "hold the same token", words: Self.requests),
        PlantedFault(
            mutation: "shared-id",
            complaint: "not published|a dead letter|ended with a problem",
            words: ["--only", "slow", "--every", "3", "--apps", "2", "--sends", "20"]
        ),
        PlantedFault(
            mutation: "shared-place",
            complaint: "without an end|never reached|which was|not restored",
            words: ["--only", "login,topic", "--every", "3", "--apps", "2", "--encrypted", "false"]
        ),
        PlantedFault(
            mutation: "unforgotten-device",
            complaint: "must be one of",
            words: ["--only", "forget-user,login", "--every", "2", "--devices", "30"]
        ),
    ]

    /// Faults that were once in the product, or that a protection keeps out of it. Since the seeds were found, what happens in one may have
    /// changed, so the next ones count, too.
    @Test(arguments: Self.faults)
    private func `A fault that is put in on purpose is found`(_ fault: PlantedFault) throws {
        for seed in fault.seed..<(fault.seed + 20) {
            let words = ["--seed", "\(seed)", "--masters", "1", "--end-within", "\(fault.endSeconds)"] + fault.words
            let answer = try Self.fleet(words + ["--mutation", fault.mutation])
            guard answer.code != 0 else { continue }
            let complaints = fault.complaint.split(separator: "|")
            let isTold = answer.lines.contains { line in complaints.contains { line.contains($0) } }
            #expect(answer.code == 1 && isTold, "\(answer.lines)")
            // Without the fault, all is well.
            let control = try Self.fleet(words)
            #expect(control.code == 0, "\(control.lines)")
            return
        }
        Issue.record("20 seeds from \(fault.seed) on have not found \(fault.mutation)")
    }
}
