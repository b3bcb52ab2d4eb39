import ApusCore
import Testing

@testable import ApusProviders

@Suite struct OriginStateTests {
    private let second: UInt64 = 1_000_000_000

    private func state() -> OriginState { OriginState(OriginState.Limits(waitingMax: 2), now: 0) }

    @Test func `A full origin holds back others for a second at most, and without a connection it does not`() {
        var state = self.state()
        state.connected(true, now: 0)
        for _ in 0..<2 {
            #expect(state.decide(.bulk, oldest: nil, now: 0) == .take)
            state.taken(.bulk, now: 0)
        }
        let second = self.second
        #expect(state.isFull(.bulk) && !state.isFull(.express) && state.waiting == 2)
        #expect(state.decide(.bulk, oldest: nil, now: 100 * second) == .holdBack)
        state.gotRoom(now: 100 * second)
        #expect(state.decide(.bulk, oldest: 99 * second + 1, now: 100 * second) == .holdBack)
        #expect(state.decide(.bulk, oldest: 99 * second, now: 100 * second) == .putOff(.connection, nanoseconds: 0))
        #expect(state.decide(.express, oldest: nil, now: 100 * second) == .take)
        state.connected(false, now: 100 * second)
        #expect(state.decide(.bulk, oldest: nil, now: 101 * second) == .holdBack)
        state.left(.bulk)
        #expect(state.decide(.bulk, oldest: nil, now: 101 * second) == .take)
        #expect(state.decide(.bulk, oldest: nil, now: 102 * second) == .putOff(.connection, nanoseconds: 0))
        state.left(.bulk)
        #expect(state.decide(.bulk, oldest: nil, now: 102 * second) == .take)
    }

    @Test func `A full origin that gives room to none holds back others for a quarter of a second`() {
        var state = self.state()
        for _ in 0..<2 { state.taken(.bulk, now: 0) }
        let quarter = self.second / 4
        func isHeldBack(at time: UInt64, oldest: UInt64? = 0) -> Bool {
            state.decide(.bulk, oldest: oldest, now: time) == .holdBack
        }
        // A connection takes longer to make.
        #expect(isHeldBack(at: 2 * quarter - 1) && !isHeldBack(at: 2 * quarter))
        state.connected(true, now: quarter)
        #expect(isHeldBack(at: 2 * quarter - 1) && !isHeldBack(at: 2 * quarter))
        state.gotRoom(now: 2 * quarter)
        #expect(isHeldBack(at: 3 * quarter - 1) && !isHeldBack(at: 3 * quarter))
        // It still gives room, but too slowly.
        state.gotRoom(now: 4 * quarter)
        #expect(!isHeldBack(at: 4 * quarter) && isHeldBack(at: 4 * quarter, oldest: 1))
        // Requests that are still being encrypted tell nothing of it.
        #expect(isHeldBack(at: 100 * quarter, oldest: nil))
    }

    @Test func `One request waits at an origin that was full and slow, until it answers`() {
        let outcomes: [(DeliveryOutcome, isAnswer: Bool)] = [
            (.lost(.timeout), false), (.deferred(Deferral(.connection, isFree: true)), false), (.accepted, true),
            (.rejected(.other), true), (.unregistered(.unregistered, asOf: nil), true),
        ]
        for (outcome, isAnswer) in outcomes {
            var state = self.state()
            state.connected(true, now: 0)
            state.stall()
            #expect(state.decide(.bulk, oldest: nil, now: 0) == .take)
            state.taken(.bulk, now: 0)
            #expect(state.decide(.bulk, oldest: nil, now: 0) == .putOff(.connection, nanoseconds: 0))
            state.answered(outcome, now: 0)
            #expect(
                state.decide(.bulk, oldest: nil, now: 0) == (isAnswer ? .take : .putOff(.connection, nanoseconds: 0))
            )
        }
    }

    @Test(
        "D103 ten answers about the rate in a row let an origin rest, for as long as they say and five minutes at most"
    )
    func rests() {
        func answers(_ count: Int, retryAfter: Int64?, _ state: inout OriginState) {
            let deferral = Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: retryAfter)
            for _ in 0..<count { state.answered(.deferred(deferral), now: self.second) }
        }
        for (retryAfter, seconds) in [(nil as Int64?, 30 as UInt64), (45_000, 45), (3_600_000, 300)] {
            var state = self.state()
            answers(9, retryAfter: retryAfter, &state)
            #expect(state.decide(.bulk, oldest: nil, now: self.second) == .take)
            state.answered(.accepted, now: self.second)
            answers(9, retryAfter: retryAfter, &state)
            #expect(state.decide(.bulk, oldest: nil, now: self.second) == .take)
            answers(1, retryAfter: retryAfter, &state)
            #expect(
                state.decide(.bulk, oldest: nil, now: self.second)
                    == .putOff(.rateLimited, nanoseconds: seconds * self.second)
            )
            #expect(state.decide(.bulk, oldest: nil, now: (1 + seconds) * self.second) == .take)
        }
    }

    @Test("D101 an origin that refuses the key is left alone for five minutes")
    func refused() {
        var state = self.state()
        state.refused(now: self.second)
        #expect(
            state.decide(.bulk, oldest: nil, now: 2 * self.second)
                == .putOff(.credentials, nanoseconds: 299 * self.second)
        )
        #expect(state.decide(.bulk, oldest: nil, now: 301 * self.second) == .take)
        state.refused(now: self.second)
        state.restored()
        #expect(state.decide(.bulk, oldest: nil, now: 2 * self.second) == .take)
    }

    @Test func `Requests that are given back and come again wait for thirty seconds in all without room`() {
        var state = self.state()
        let second = self.second
        state.taken(.bulk, now: 0)
        for time in stride(from: 2 * second, to: 30 * second, by: 2_000_000_000) {
            state.left(.bulk)
            #expect(!state.isCramped(now: time))
            state.taken(.bulk, now: time)
        }
        #expect(!state.isCramped(now: 30 * second - 1) && state.isCramped(now: 30 * second))
        // One that gets room shows that the origin is alive.
        state.taken(.bulk, now: 30 * second)
        state.left(.bulk)
        state.gotRoom(now: 30 * second)
        #expect(!state.isCramped(now: 60 * second - 1) && state.isCramped(now: 60 * second))
        state.left(.bulk)
        state.emptied()
        #expect(!state.isCramped(now: 60 * second))
        // Those that never came again wait no longer.
        state.taken(.bulk, now: 61 * second)
        state.left(.bulk)
        state.taken(.bulk, now: 91 * second)
        #expect(!state.isCramped(now: 92 * second) && state.isCramped(now: 121 * second))
    }

    @Test func `An origin's state in metrics is the reason for which its requests are put off`() {
        let second = self.second
        var state = self.state()
        #expect(state.standing(now: 2 * second - 1) == .sending && state.standing(now: 2 * second) == .unreachable)
        state.connected(true, now: 3 * second)
        #expect(state.standing(now: 4 * second) == .sending)
        state.stall()
        #expect(state.standing(now: 4 * second) == .slow)
        state.rest(now: 4 * second)
        #expect(state.standing(now: 34 * second - 1) == .resting && state.standing(now: 34 * second) == .slow)
        state.answered(.accepted, now: 34 * second)
        #expect(state.standing(now: 34 * second) == .sending)
        state.refused(now: 34 * second)
        #expect(state.standing(now: 35 * second) == .refused)
        state.restored()
        #expect(state.standing(now: 35 * second) == .sending)
    }

    @Test func `An origin is idle ten minutes after its last request`() {
        var state = self.state()
        state.taken(.bulk, now: 5 * self.second)
        #expect(!state.isIdle(now: 10_000 * self.second))
        state.left(.bulk)
        #expect(!state.isIdle(now: 604 * self.second))
        #expect(state.isIdle(now: 605 * self.second))
    }

    @Test("D107 addresses that are not public are refused, in either form")
    func addresses() {
        let refused: [[UInt8]] = [
            [0, 0, 0, 0], [10, 0, 0, 1], [100, 64, 0, 1], [127, 0, 0, 1], [169, 254, 169, 254], [172, 16, 0, 1],
            [172, 31, 255, 255], [192, 168, 1, 1], [192, 0, 2, 1], [198, 18, 0, 1], [198, 51, 100, 1],
            [203, 0, 113, 1],
            [224, 0, 0, 1], [240, 0, 0, 1], [255, 255, 255, 255],
        ]
        let taken: [[UInt8]] = [
            [8, 8, 8, 8], [172, 15, 0, 1], [172, 32, 0, 1], [192, 167, 1, 1], [100, 63, 0, 1], [223, 1, 1, 1],
        ]
        for address in refused { #expect(!PublicAddress.isPublic(address), "\(address)") }
        for address in taken { #expect(PublicAddress.isPublic(address), "\(address)") }
        func six(_ head: [UInt8], _ tail: [UInt8] = [1]) -> [UInt8] {
            head + [UInt8](repeating: 0, count: 16 - head.count - tail.count) + tail
        }
        let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        let translated: [UInt8] = [0, 0x64, 0xff, 0x9b]
        for address in [
            six([]), six([], [0]), six([0xfe, 0x80]), six([0xfc]), six([0xfd, 1]), six([0xff, 2]),
            mapped + [8, 8, 8, 8],
            mapped + [127, 0, 0, 1], six([0x20, 0x01, 0x0d, 0xb8]), six([0x20, 0x02]), six([0x20, 0x01]),
            six(translated, [10, 0, 0, 1]), six([0x3f, 0xff]),
        ] { #expect(!PublicAddress.isPublic(address), "\(address)") }
        for address in [six([0x26, 0x07, 0xf8, 0xb0]), six([0x2a, 0x00]), six(translated, [8, 8, 8, 8])] {
            #expect(PublicAddress.isPublic(address), "\(address)")
        }
    }
}
