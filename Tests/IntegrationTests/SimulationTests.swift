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
        for arguments in [["--without", "nothing"], ["--mutation", "nothing"], ["--devices", "0"]] {
            let answer = try Self.fleet(arguments)
            #expect(answer.code == 64 && !answer.talk.isEmpty)
        }
    }

    /// Faults that were once in the product, or that a protection keeps out of it. The seed found each when this was written; since then what
    /// happens in a seed may have changed, so the next ones count, too.
    @Test(
        arguments: [
            ("stranger", 15, "which was"), ("no-journal", 1, "without an end"), ("no-retry", 6, "without an end"),
            ("no-outcomes", 1, "without an end"), ("published-twice", 3, "2 ends"),
        ]
    )
    func `A fault that is put in on purpose is found`(_ mutation: String, _ seed: Int, _ complaint: String) throws {
        for seed in seed..<(seed + 20) {
            let answer = try Self.fleet(["--seed", "\(seed)", "--mutation", mutation])
            guard answer.code != 0 else { continue }
            #expect(answer.code == 1 && answer.lines.contains { $0.contains(complaint) }, "\(answer.lines)")
            return
        }
        Issue.record("20 seeds from \(seed) on have not found \(mutation)")
    }
}
