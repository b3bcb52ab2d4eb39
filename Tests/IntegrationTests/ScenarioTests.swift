import ApusCore
import ApusLab
import Testing

/// Small loads: what is asserted are counts. Whether the rate was reached is for a machine that has nothing else to do.
@Suite(.serialized) struct ScenarioTests {
    private func order(_ scenario: LoadScenario, rate: Double, devices: Int) -> ScenarioOptions {
        var order = ScenarioOptions(scenario)
        order.ratePerSecond = rate
        order.devices = devices
        order.warmUpSeconds = 0.5
        order.seconds = 1
        return order
    }

    private func expectExact(_ result: LoadResult, planned: Int, measured: Int) {
        #expect(result.complaints == [])
        #expect(result.planned == planned && result.accepted == planned)
        #expect(result.lost == 0 && result.repeated == 0 && result.strangers == 0)
        #expect(result.measured == measured && result.latency.count > 0)
        #expect((result.redisBytesPerDevice ?? 0) > 0)
    }

    @Test func `Single sends reach their devices once, and each process is accounted for`() async throws {
        let result = try await ScenarioRunner.measure(self.order(.transactional, rate: 40, devices: 500))
        self.expectExact(result, planned: 60, measured: 40)
        #expect(result.latency.count == 40 && result.bulk == nil)
        #expect(Set(result.usage.seconds.keys) == ["dispatcher", "feedback", "redis", "sink", "driver"])
        #expect(result.usage.residentBytesMax > 0)
    }

    @Test func `Single sends to users reach each device of two providers once`() async throws {
        let result = try await ScenarioRunner.measure(self.order(.users, rate: 20, devices: 300))
        self.expectExact(result, planned: 90, measured: 60)
        #expect(result.latency.count == 60 && result.bulk == nil)
    }

    @Test func `Topic sends reach every device once each`() async throws {
        let result = try await ScenarioRunner.measure(self.order(.fanout, rate: 1_000, devices: 250))
        self.expectExact(result, planned: 1_500, measured: 1_000)
        #expect(result.latency.count == 1_000)
    }

    @Test func `Single sends beside topic sends are both counted, each by itself`() async throws {
        var order = self.order(.mixed, rate: 20, devices: 250)
        order.bulkRatePerSecond = 1_000
        let result = try await ScenarioRunner.measure(order)
        self.expectExact(result, planned: 30 + 1_500, measured: 20 + 1_000)
        #expect(result.latency.count == 20 && result.bulk?.latency.count == 1_000)
    }

    @Test func `The bytes of a stored device and of a subscription are measured`() async throws {
        let report = try await StoreMemory(devices: 20_000).run { _ in }
        #expect(report.devices == 20_000)
        // A store so small has more buckets for each device than a large one; what is asserted is that figures are of the right size.
        #expect((100...400).contains(report.bytesPerDevice))
        #expect((100...400).contains(report.bytesPerDeviceShortIDs))
        #expect(report.bytesPerDeviceFCM > report.bytesPerDevice + 80)
        #expect((0...60).contains(report.bytesPerSubscription))
        #expect(report.json(revision: "x")["redis_bytes_per_device"] != nil)
    }

    @Test func `Registrations are in the store once, with their tokens`() async throws {
        let result = try await ScenarioRunner.measure(self.order(.register, rate: 100, devices: 1))
        self.expectExact(result, planned: 150, measured: 100)
        #expect(result.latency.count == 100 && result.usage.seconds["registration"] != nil)
    }
}
