import ApusFuzzing
import CFuzzer
import FoundationEssentials
import Glibc
import Synchronization

/// Runs libFuzzer over one parser of foreign bytes (`apus-fuzz`), or writes what it begins with. `Scripts/fuzz` builds and calls it.
@main
struct ApusFuzzProgram {
    private static let usage = """
        usage: apus-fuzz list                     the targets, a line each
               apus-fuzz seeds TARGET FOLDER      writes the target's inputs into the folder, and its words into FOLDER.dict
               apus-fuzz run TARGET [libFuzzer's options and folders]
        """

    /// The target that libFuzzer runs: its callback is a C function, which carries nothing.
    private static let target = Mutex<FuzzTarget?>(nil)

    static func main() throws {
        let arguments = CommandLine.arguments
        switch (arguments.dropFirst().first, arguments.count) {
        case ("list", 2): for target in FuzzTarget.all { print(target.name) }
        case ("seeds", 4): try Self.writeSeeds(of: Self.named(arguments[2]), to: arguments[3])
        case ("run", 3...):
            Self.target.withLock { $0 = Self.named(arguments[2]) }
            exit(Self.fuzz([arguments[0]] + arguments.dropFirst(3)))
        default: Self.fail(Self.usage)
        }
    }

    private static func named(_ name: String) -> FuzzTarget {
        guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
            Self.fail("there is no target \(name); apus-fuzz list names them")
        }
        return target
    }

    private static func fail(_ text: String) -> Never {
        var text = text + "\n"
        text.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
        exit(64)
    }

    private static func writeSeeds(of target: FuzzTarget, to folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for (index, seed) in target.seeds.enumerated() {
            try Data(seed).write(to: URL(filePath: "\(folder)/seed-\(index)"))
        }
        // Source: https://llvm.org/docs/LibFuzzer.html#dictionaries
        let words = target.words.map { word in
            "\"" + word.utf8.map { "\\x" + (($0 < 16 ? "0" : "") + String($0, radix: 16)) }.joined() + "\"\n"
        }
        try Data(words.joined().utf8).write(to: URL(filePath: "\(folder).dict"))
    }

    /// Calls libFuzzer's loop with its own arguments; returns its exit status.
    private static func fuzz(_ arguments: [String]) -> Int32 {
        var count = Int32(arguments.count)
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        return pointers.withUnsafeMutableBufferPointer { buffer in
            var base = buffer.baseAddress
            return LLVMFuzzerRunDriver(&count, &base) { data, size in
                let bytes = UnsafeBufferPointer(start: data, count: size)
                ApusFuzzProgram.run([UInt8](bytes))
                return 0
            }
        }
    }

    private static func run(_ input: [UInt8]) {
        guard let target = Self.target.withLock({ $0 }) else { return }
        do {
            try target.run(input)
        } catch {
            // libFuzzer keeps the input of a process that ends so.
            fatalError("\(target.name): \(error)")
        }
    }
}
