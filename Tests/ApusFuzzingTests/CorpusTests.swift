import ApusCore
import ApusFuzzing
import Foundation
import Testing

/// A bounded pass of every fuzzer: its seeds, the inputs that are kept for it, and mutations of both.
@Suite struct CorpusTests {
    /// The mutations of each target; APUS_FUZZ_MUTATIONS gives another number.
    private static let mutations = Self.number("APUS_FUZZ_MUTATIONS") ?? 1_500
    /// The seed of the mutations is fixed, so that a run can be repeated; APUS_FUZZ_SEED gives another one.
    private static let seed = UInt64(Self.number("APUS_FUZZ_SEED") ?? 0x6170_7573)

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 }
    }

    /// The kept inputs of a target, a line of base64 for each; a line that begins with # is a comment.
    private static func kept(_ target: FuzzTarget) throws -> [[UInt8]] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Corpus")
        let file = folder.appending(path: "\(target.name).txt")
        guard FileManager.default.fileExists(atPath: file.path()) else { return [] }
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.hasPrefix("#") }.map {
            line in
            [UInt8](try #require(Data(base64Encoded: String(line)), "\(target.name).txt: \(line) is no base64"))
        }
    }

    @Test(arguments: FuzzTarget.all.map(\.name))
    func `No input breaks a property of the parser`(_ name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let corpus = target.seeds + (try Self.kept(target))
        for failure in target.failures(corpus, mutations: Self.mutations, seed: Self.seed) {
            Issue.record("\(failure)")
        }
    }

    @Test func `Targets have names of their own, and every kept corpus has a target`() throws {
        let names = FuzzTarget.all.map(\.name)
        #expect(Set(names).count == names.count)
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Corpus")
        for file in (try? FileManager.default.contentsOfDirectory(atPath: folder.path())) ?? [] {
            #expect(names.contains(file.replacing(".txt", with: "")), "\(file) belongs to no target")
        }
    }
}

/// An input that breaks a property, for people who mend the parser.
struct FoundFailure: CustomStringConvertible {
    /// The origin of the input: the corpus, or a mutation with its seed.
    let origin: String
    /// The property, and what was seen instead.
    let property: String
    /// The input.
    let input: [UInt8]

    var description: String { "\(self.origin): \(self.property); input \(Data(self.input).base64EncodedString())" }
}

extension FuzzTarget {
    /// Runs the target over a corpus and mutations of it; returns the inputs that break a property.
    func failures(_ corpus: [[UInt8]], mutations: Int, seed: UInt64) -> [FoundFailure] {
        var failures: [FoundFailure] = []
        func run(_ input: [UInt8], _ origin: @autoclosure () -> String) {
            do {
                try self.run(input)
            } catch {
                failures.append(FoundFailure(origin: origin(), property: "\(error)", input: input))
            }
        }
        for (index, input) in corpus.enumerated() { run(input, "input \(index)") }
        var mutator = Mutator(corpus: corpus, words: self.words, generator: SeededGenerator(seed: seed))
        for iteration in 0..<mutations { run(mutator.next(), "seed \(seed), iteration \(iteration)") }
        return failures
    }
}
