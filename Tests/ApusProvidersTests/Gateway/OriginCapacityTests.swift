import ApusCore
import Testing

@testable import ApusProviders

@Suite struct OriginCapacityTests {
    private static func candidate(
        _ number: Int,
        _ trust: HostTrust,
        isBusy: Bool = false,
        lastUse: UInt64? = nil,
    ) -> OriginCapacity.Candidate {
        OriginCapacity.Candidate(
            origin: Origin(host: "\(trust)-\(number).example"),
            trust: trust,
            isBusy: isBusy,
            lastUse: lastUse ?? UInt64(number),
        )
    }

    @Test func `A thousand origins have room, and the next one takes the place of the one that is unused for longest`()
    {
        let capacity = OriginCapacity()
        let known = (0..<1_000).map { Self.candidate($0, .known, isBusy: $0 < 3, lastUse: UInt64(2_000 - $0)) }
        #expect(capacity.decide(.known, among: Array(known.dropLast())) == .room)
        #expect(capacity.decide(.known, among: known) == .replace(known[999].origin))
        let busy = (0..<1_000).map { Self.candidate($0, .known, isBusy: true) }
        #expect(capacity.decide(.known, among: busy) == .full)
        #expect(capacity.decide(.unknown, among: busy) == .full)
    }

    @Test func `Hosts that anybody may name take nine hundred places, and leave the others to providers' own`() {
        let capacity = OriginCapacity()
        let unknown = (0..<900).map { Self.candidate($0, .unknown, isBusy: $0 != 450) }
        #expect(capacity.decide(.unknown, among: Array(unknown.dropLast())) == .room)
        #expect(capacity.decide(.unknown, among: unknown) == .replace(unknown[450].origin))
        #expect(capacity.decide(.known, among: unknown) == .room && capacity.decide(.named, among: unknown) == .room)
        let busy = (0..<900).map { Self.candidate($0, .unknown, isBusy: true) }
        #expect(capacity.decide(.unknown, among: busy + [Self.candidate(0, .known)]) == .full)
        // One that anybody may name goes before a provider's own that has been unused for longer.
        let known = (0..<100).map { Self.candidate($0, .known, lastUse: 0) }
        #expect(capacity.decide(.known, among: unknown + known) == .replace(unknown[450].origin))
        #expect(capacity.decide(.known, among: busy + known) == .replace(known[0].origin))
    }
}
