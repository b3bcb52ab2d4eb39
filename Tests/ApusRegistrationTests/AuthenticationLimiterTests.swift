import ApusRegistration
import NIOCore
import Testing

private let second: Int64 = 1_000_000_000

@Suite struct AuthenticationLimiterTests {
    private func address(_ text: String) throws -> AddressCounts.Address {
        try #require(AddressCounts.Address(try SocketAddress(ipAddress: text, port: 1)))
    }

    @Test func `An address has so many failures at once and in each minute`() throws {
        var limiter = AuthenticationLimiter(perMinute: 60)
        let (one, other) = (try self.address("192.0.2.1"), try self.address("192.0.2.2"))
        for failure in 0..<60 {
            #expect(limiter.wait(of: one, at: 0) == nil, "failure \(failure)")
            limiter.recordFailure(of: one, at: 0)
        }
        #expect(limiter.wait(of: one, at: 0) == second)
        #expect(limiter.wait(of: other, at: 0) == nil)
        #expect(limiter.wait(of: one, at: second - 1) == 1)
        #expect(limiter.wait(of: one, at: second) == nil)
        // Ten minutes at full pressure: sixty a minute.
        var examined = 0
        for tick in 0..<6_000 {
            let now = second + Int64(tick) * second / 10
            guard limiter.wait(of: one, at: now) == nil else { continue }
            limiter.recordFailure(of: one, at: now)
            examined += 1
        }
        #expect(examined == 600)
        // A minute of silence later all is forgotten.
        #expect(limiter.wait(of: one, at: 661 * second) == nil)
    }

    @Test func `Failures beyond the limit make the wait no longer`() throws {
        var limiter = AuthenticationLimiter(perMinute: 1)
        let one = try self.address("192.0.2.1")
        for _ in 0..<1_000 { limiter.recordFailure(of: one, at: 5) }
        #expect(limiter.wait(of: one, at: 5) == 60 * second)
        #expect(limiter.wait(of: one, at: 5 + 60 * second) == nil)
    }

    @Test func `One network of IPv6 is one address`() throws {
        var limiter = AuthenticationLimiter(perMinute: 1)
        limiter.recordFailure(of: try self.address("2001:db8:1:2::1"), at: 0)
        #expect(try limiter.wait(of: self.address("2001:db8:1:2:ffff::9"), at: 0) != nil)
        #expect(try limiter.wait(of: self.address("2001:db8:1:3::1"), at: 0) == nil)
    }

    @Test func `The memory for addresses is bounded, and no flood of them holds up another`() throws {
        var limiter = AuthenticationLimiter(perMinute: 1)
        for index in 0..<AuthenticationLimiter.addressesMax {
            limiter.recordFailure(of: try self.address("10.\(index >> 16).\(index >> 8 & 255).\(index & 255)"), at: 0)
        }
        #expect(limiter.addressCount == AuthenticationLimiter.addressesMax)
        let one = try self.address("192.0.2.1")
        for _ in 0..<3 { limiter.recordFailure(of: one, at: 1) }
        #expect(limiter.addressCount == AuthenticationLimiter.addressesMax)
        #expect(limiter.wait(of: one, at: 1) == nil)
        #expect(try limiter.wait(of: self.address("10.0.0.7"), at: 1) != nil)
        // Addresses whose failures are forgotten make room.
        limiter.recordFailure(of: one, at: 61 * second)
        #expect(limiter.addressCount == 1)
        #expect(limiter.wait(of: one, at: 61 * second) != nil)
    }

    @Test func `Accepted tokens are remembered, each in the place of an older one`() {
        var limiter = AuthenticationLimiter(perMinute: 1)
        let count = UInt64(AuthenticationLimiter.tokensMax)
        #expect(!limiter.hasAccepted(7))
        #expect(!limiter.hasAccepted(0))
        limiter.recordAcceptance(of: 7)
        limiter.recordAcceptance(of: 8)
        #expect(limiter.hasAccepted(7))
        #expect(limiter.hasAccepted(8))
        #expect(!limiter.hasAccepted(7 + count))
        limiter.recordAcceptance(of: 7 + count)
        #expect(limiter.hasAccepted(7 + count))
        #expect(!limiter.hasAccepted(7))
    }
}
