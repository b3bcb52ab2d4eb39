internal import ApusCore
package import ApusTerminal

/// Runs one drill after the other for `apus-lab loadtest --drill`, with progress on standard error.
package struct DrillRunner: Sendable {
    private let drills: [Drill]
    private let size: Drill.Size
    private let devices: Int?
    private let seed: UInt64

    /// Creates a runner of the drill with the given name, or of `all`.
    ///
    /// - Throws: `CommandFailure` with the known names.
    package init(_ name: String, size: Drill.Size, devices: Int?, seed: UInt64) throws(CommandFailure) {
        if name == "all" {
            self.drills = Drill.all
        } else if let drill = Drill.named(name) {
            self.drills = [drill]
        } else {
            let names = Drill.all.map(\.name).joined(separator: ", ")
            throw CommandFailure("there is no drill \"\(name)\"; there are: \(names), and all")
        }
        self.size = size
        self.devices = devices
        self.seed = seed
    }

    /// Runs the drills; each report is passed on as soon as it is complete.
    ///
    /// - Returns: the names of the drills that did not pass.
    package func run(_ report: (DrillReport) -> Void) async throws -> [String] {
        var failed: [String] = []
        for drill in self.drills {
            Console.message(Console.bold("== \(drill.name): \(drill.abstract)"))
            let result = try await drill.run(self.size, devices: self.devices, seed: self.seed) {
                Console.message("   \($0)")
            }
            for complaint in result.complaints { Console.message("   \(complaint)") }
            if !result.passed { failed.append(drill.name) }
            report(result)
        }
        return failed
    }
}
