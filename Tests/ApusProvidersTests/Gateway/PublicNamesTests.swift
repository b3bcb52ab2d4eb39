import ApusCore
import Foundation
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ApusProviders

@Suite(.timeLimit(.minutes(1))) struct PublicNamesTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()

    private func addresses(_ names: PublicNames, _ host: String) async throws -> [String?] {
        try await names.resolver(on: self.loop).initiateAQuery(host: host, port: 443).get().map(\.ipAddress)
    }

    @Test("D107 a name's public addresses are given, and without any it is refused")
    func publicOnes() async throws {
        let names = PublicNames(
            threads: 1,
            lookUp: { host, _ in
                switch host {
                case "mixed.example": [[10, 0, 0, 1], [93, 184, 216, 34], [127, 0, 0, 1]]
                case "private.example": [[169, 254, 169, 254]]
                default: []
                }
            }
        )
        #expect(try await self.addresses(names, "mixed.example") == ["93.184.216.34"])
        await #expect(throws: PublicNames.NotPublic.self) { _ = try await self.addresses(names, "private.example") }
        #expect(try await self.addresses(names, "nowhere.example") == [])
        try await names.close()
    }

    @Test(
        "D107 forms of addresses that only the system's resolver reads are looked up, and refused",
        arguments: ["127.0x1", "0x7f.1"]
    )
    func numbers(host: String) async throws {
        #expect(PublicNames.addresses(of: host, AF_INET) == [[127, 0, 0, 1]])
        let names = try #require(PublicNames.shared(by: .unknown))
        await #expect(throws: PublicNames.NotPublic.self) { _ = try await self.addresses(names, host) }
    }

    @Test func `Look-ups that nobody waits for any more are skipped, and slow ones hold up no provider's own`()
        async throws
    {
        let gate = DispatchSemaphore(value: 0)
        let asked = Mutex<[String]>([])
        let slow = PublicNames(
            threads: 1,
            lookUp: { host, _ in
                asked.withLock { $0.append(host) }
                gate.wait()
                return [[93, 184, 216, 34]]
            }
        )
        let first = slow.resolver(on: self.loop).initiateAQuery(host: "first.example", port: 443)
        while asked.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        let cancelled = slow.resolver(on: self.loop)
        let second = cancelled.initiateAQuery(host: "second.example", port: 443)
        cancelled.cancelQueries()
        let third = slow.resolver(on: self.loop).initiateAQuery(host: "third.example", port: 443)
        for _ in 0..<2 { gate.signal() }
        #expect(try await first.get().count == 1)
        #expect(try await third.get().count == 1)
        #expect(try await second.get().isEmpty)
        #expect(asked.withLock { $0 } == ["first.example", "third.example"])
        try await slow.close()

        let (known, unknown) = (PublicNames.shared(by: .known), PublicNames.shared(by: .unknown))
        #expect(known != nil && unknown != nil && known !== unknown && PublicNames.shared(by: .named) == nil)
    }
}
