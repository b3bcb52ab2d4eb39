import ApusTerminal
import ArgumentParser
import Testing

@Suite struct CommandExitTests {
    @Test(arguments: [(0, 0, Int32?.none), (0, 3, nil), (1, 3, 2), (3, 3, 1)])
    func `A command of several things has failed when all of them have, and partly when some have`(
        failed: Int,
        all: Int,
        code: Int32?,
    ) {
        var ended: Int32?
        do throws(ExitCode) { try CommandExit.check(failed: failed, of: all) } catch { ended = error.rawValue }
        #expect(ended == code)
    }
}
