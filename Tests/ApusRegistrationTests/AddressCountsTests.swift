import ApusRegistration
import NIOCore
import Testing

@Suite struct AddressCountsTests {
    private func address(_ text: String) throws -> AddressCounts.Address {
        try #require(AddressCounts.Address(try SocketAddress(ipAddress: text, port: 1)))
    }

    @Test func eachAddressHasSoManyConnections() throws {
        let counts = AddressCounts(most: 2)
        let (one, other) = (try self.address("192.0.2.1"), try self.address("192.0.2.2"))
        #expect(counts.enter(one))
        #expect(counts.enter(one))
        #expect(!counts.enter(one))
        #expect(counts.enter(other))
        counts.leave(one)
        #expect(counts.enter(one))
        for address in [one, one, other] { counts.leave(address) }
        #expect(counts.addressCount == 0)
    }

    @Test func oneCustomerHasAWholeNetworkOfIPv6() throws {
        #expect(try self.address("2001:db8:1:2::1") == self.address("2001:db8:1:2:ffff::9"))
        #expect(try self.address("2001:db8:1:2::1") != self.address("2001:db8:1:3::1"))
        #expect(try self.address("::ffff:192.0.2.1") == self.address("192.0.2.1"))
        #expect(try self.address("::ffff:192.0.2.1") != self.address("::ffff:192.0.2.2"))
        #expect(try self.address("::1") != self.address("0.0.0.0"))
    }

    @Test func aUnixSocketHasNoAddress() throws {
        #expect(AddressCounts.Address(try SocketAddress(unixDomainSocketPath: "/tmp/a")) == nil)
        #expect(AddressCounts.Address(nil) == nil)
    }
}
