import ApusCore
import Testing

@testable import ApusProviders

@Suite("The wait until a gateway asks for its credential again")
struct CredentialWaitTests {
    private static let second: UInt64 = 1_000_000_000

    private func time(_ seconds: Int64) -> UnixMilliseconds { UnixMilliseconds(seconds: 1_700_000_000 + seconds) }

    /// A wait for ten seconds from second 0, when the machine had been up for a hundred.
    private func wait(of seconds: Int64 = 10, max: Int64 = CredentialWait.unavailableMillisecondsMax) -> CredentialWait
    {
        CredentialWait(until: self.time(seconds), millisecondsMax: max, now: self.time(0), uptime: 100 * Self.second)
    }

    @Test func `A wait ends at its time, by clocks that agree`() {
        #expect(!self.wait().isOver(now: self.time(9), uptime: 109 * Self.second))
        #expect(self.wait().isOver(now: self.time(10), uptime: 110 * Self.second))
    }

    @Test(arguments: [60, 3_600, 31_536_000] as [Int64])
    func `A clock that is set back makes no wait longer`(step: Int64) {
        #expect(!self.wait().isOver(now: self.time(9 - step), uptime: 109 * Self.second))
        #expect(self.wait().isOver(now: self.time(10 - step), uptime: 110 * Self.second))
    }

    @Test func `The time of day ends a wait while the other clock has stood still`() {
        #expect(self.wait().isOver(now: self.time(10), uptime: 101 * Self.second))
    }

    @Test func `A wait for a time that is past is over at once`() {
        #expect(self.wait(of: -5).isOver(now: self.time(0), uptime: 100 * Self.second))
        #expect(self.wait(of: -5).isOver(now: self.time(-9), uptime: 100 * Self.second))
    }

    @Test func `Without a credential no wait is longer than a minute, and with one than a day`() {
        let without = self.wait(of: 3_600)
        #expect(!without.isOver(now: self.time(59), uptime: 159 * Self.second))
        #expect(without.isOver(now: self.time(60), uptime: 160 * Self.second))
        let endless = CredentialWait(
            until: UnixMilliseconds(.max),
            millisecondsMax: CredentialWait.usableMillisecondsMax,
            now: self.time(0),
            uptime: 0,
        )
        #expect(!endless.isOver(now: self.time(86_399), uptime: 86_399 * Self.second))
        #expect(endless.isOver(now: self.time(86_400), uptime: 86_400 * Self.second))
    }
}
