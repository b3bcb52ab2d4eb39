import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct CircuitBreakerTests {
    private static let second: UInt64 = 1_000_000_000
    private let failure = CircuitBreaker.Answer.failure(retryAfterMilliseconds: nil)

    /// An open circuit, at time 0.
    private func opened(draw: Double = 0) -> CircuitBreaker {
        var circuit = CircuitBreaker()
        for _ in 0..<20 { circuit.record(self.failure, now: 0, draw: draw) }
        return circuit
    }

    @Test func `Twenty failures without a success open the circuit, nineteen do not`() {
        var circuit = CircuitBreaker()
        for _ in 0..<19 { circuit.record(self.failure, now: 0, draw: 0) }
        #expect(circuit.state == .closed && circuit.room(now: 0) == .max)
        circuit.record(self.failure, now: 0, draw: 0)
        #expect(circuit.state == .open(until: Self.second / 2) && circuit.room(now: 0) == 0)
    }

    @Test func `The circuit opens only when more than half of the answers are failures`() {
        var circuit = CircuitBreaker()
        for _ in 0..<1_000 {
            circuit.recordAccepted()
            circuit.record(self.failure, now: 0, draw: 0)
        }
        #expect(circuit.state == .closed)
        circuit.record(self.failure, now: 0, draw: 0)
        #expect(circuit.state == .open(until: Self.second / 2))
    }

    @Test func `Old failures are forgotten`() {
        var circuit = CircuitBreaker()
        for round in 0..<10 {
            for _ in 0..<15 { circuit.record(self.failure, now: UInt64(round) * 11 * Self.second, draw: 0) }
        }
        #expect(circuit.state == .closed)
    }

    @Test func `After the wait a few probes go out, and as many successes close the circuit`() {
        var circuit = self.opened()
        #expect(circuit.room(now: Self.second / 2) == 3)
        circuit.use(2)
        #expect(circuit.room(now: Self.second / 2) == 1)
        circuit.use(1)
        #expect(circuit.room(now: Self.second) == 0)
        circuit.recordAccepted()
        circuit.record(.success, now: Self.second, draw: 0)
        #expect(circuit.state == .halfOpen(room: 0, successes: 2))
        circuit.recordAccepted()
        #expect(circuit.state == .closed && circuit.room(now: Self.second) == .max)
    }

    @Test func `A failed probe doubles the wait, up to half a minute; jitter adds up to as much again`() {
        var circuit = self.opened()
        var waits: [UInt64] = []
        var now = Self.second / 2
        for _ in 0..<8 {
            #expect(circuit.room(now: now) == 3)
            circuit.use(1)
            circuit.record(self.failure, now: now, draw: 0)
            guard case .open(let until) = circuit.state else { break }
            waits.append((until - now) / 1_000_000)
            now = until
        }
        #expect(waits == [1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000, 15_000])
        #expect(self.opened(draw: 0.5).state == .open(until: Self.second * 3 / 4))
    }

    @Test func `The provider may ask for a longer wait, and after the circuit has closed the next wait is short again`()
    {
        var circuit = CircuitBreaker()
        for _ in 0..<20 { circuit.record(.failure(retryAfterMilliseconds: 20_000), now: 0, draw: 0) }
        #expect(circuit.state == .open(until: 20 * Self.second))
        #expect(circuit.room(now: 20 * Self.second) == 3)
        circuit.use(3)
        for _ in 0..<3 { circuit.recordAccepted() }
        for _ in 0..<20 { circuit.record(self.failure, now: 30 * Self.second, draw: 0) }
        #expect(circuit.state == .open(until: 30 * Self.second + Self.second / 2))
    }

    @Test
    func
        `The provider counts as failing from the first opening until a probe succeeds, or nothing comes to probe with`()
    {
        let wait = Self.second / 2
        var circuit = CircuitBreaker()
        #expect(circuit.failingNanoseconds(now: Self.second) == nil)
        circuit = self.opened()
        #expect(circuit.failingNanoseconds(now: 0) == 0 && circuit.failingNanoseconds(now: wait) == wait)
        // It opens again: the failure is as old as before.
        #expect(circuit.room(now: wait) == 3)
        #expect(circuit.failingNanoseconds(now: wait) == wait)
        circuit.use(3)
        circuit.record(self.failure, now: 2 * Self.second, draw: 0)
        #expect(circuit.failingNanoseconds(now: 3 * Self.second) == 3 * Self.second)
        // Nobody has probed for a minute after the wait of a second.
        #expect(circuit.failingNanoseconds(now: 63 * Self.second - 1) != nil)
        #expect(circuit.failingNanoseconds(now: 63 * Self.second) == nil)
        _ = circuit.room(now: 4 * Self.second)
        circuit.use(3)
        circuit.recordAccepted()
        #expect(circuit.failingNanoseconds(now: 4 * Self.second) == nil)
        for _ in 0..<2 { circuit.recordAccepted() }
        #expect(circuit.state == .closed && circuit.failingNanoseconds(now: 4 * Self.second) == nil)
    }

    @Test func `Answers to earlier requests change nothing while the circuit is open`() {
        var circuit = self.opened()
        for _ in 0..<100 { circuit.recordAccepted() }
        for _ in 0..<100 { circuit.record(self.failure, now: 1, draw: 0) }
        #expect(circuit.state == .open(until: Self.second / 2))
    }

    @Test func `A probe whose answer says nothing about the provider may be repeated`() {
        var circuit = self.opened()
        _ = circuit.room(now: Self.second)
        circuit.use(3)
        circuit.record(.neutral, now: Self.second, draw: 0)
        #expect(circuit.room(now: Self.second) == 1)
        for _ in 0..<9 { circuit.record(.neutral, now: Self.second, draw: 0) }
        #expect(circuit.room(now: Self.second) == 3)
    }

    @Test func `Only 5xx and silence are failures; answers about a message, a device or our configuration are not`() {
        typealias Answer = CircuitBreaker.Answer
        #expect(Answer(.deferred(Deferral(.providerUnavailable))) == self.failure)
        #expect(
            Answer(.deferred(Deferral(.providerUnavailable, scope: .route, retryAfterMilliseconds: 7)))
                == .failure(retryAfterMilliseconds: 7)
        )
        #expect(Answer(.lost(.timeout)) == self.failure && Answer(.lost(.connection)) == self.failure)
        for outcome: DeliveryOutcome in [
            .accepted, .unregistered(.unregistered, asOf: nil), .suspect(.badToken), .rejected(.payload),
            .deferred(Deferral(.rateLimited, scope: .device)), .deferred(Deferral(.rateLimited, scope: .route)),
        ] {
            #expect(Answer(outcome) == .success)
        }
        for outcome: DeliveryOutcome in [
            .misconfigured(.credential), .deferred(Deferral(.connection, isFree: true)),
            .deferred(Deferral(.credentials, needsNewConnection: true, isFree: true)), .deferred(Deferral(.timeout)),
        ] {
            #expect(Answer(outcome) == .neutral)
        }
    }

    @Test func `Failures of one origin of many stop nothing`() {
        typealias Answer = CircuitBreaker.Answer
        for outcome: DeliveryOutcome in [
            .lost(.timeout), .lost(.connection), .deferred(Deferral(.providerUnavailable, scope: .device)),
        ] {
            #expect(Answer(outcome, isOfOneOrigin: true) == .neutral)
        }
        #expect(Answer(.accepted, isOfOneOrigin: true) == .success)
    }
}
