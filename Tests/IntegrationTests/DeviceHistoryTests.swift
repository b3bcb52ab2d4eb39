import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusTestKit
import Testing

/// The answer to "why didn't she get it?".
@Suite(.serialized) struct DeviceHistoryTests {
    @Test func `The outcomes of sends that name a device are in its history, whatever receipts were requested`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(4, user: { _ in "ada" })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let device = devices[0]
            func history() throws -> (kinds: [String], events: [[String: Any]]) {
                let told = try fleet.apus("device", "history", "--app", Fleet.app, device.id)
                let events = told.json["events"] as? [[String: Any]] ?? []
                return (events.compactMap { $0["event"] as? String }, events)
            }
            #expect(try history().kinds == ["registered"])
            try await fleet.send(.devices([device.id]), id: "one", lane: .express)
            try await eventually("it is told", timeout: .seconds(60)) {
                try history().kinds == ["registered", "accepted"]
            }
            let accepted = try #require(try history().events.last)
            #expect(accepted["send"] as? String == "one" && (accepted["provider_id"] as? String)?.isEmpty == false)

            // To its user, with three other devices; its token has died since.
            fleet.simulator.declare(.dead(since: fleet.clock.now()), of: device.token, provider: device.provider)
            try await fleet.send(.users(["ada"]), id: "two", lane: .express)
            try await eventually("its end is told", timeout: .seconds(60)) {
                try history().kinds == ["registered", "accepted", "pruned"]
                    || history().kinds == ["accepted", "pruned"]
            }
            #expect(try history().events.last?["send"] as? String == "two")
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }
}
