import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Broadcast channels from end to end: what is known of them, and what reaches the simulated Apple.
@Suite(.serialized) struct ChannelTests {
    /// A fleet's channels, as its operator and its publishers use them.
    private struct Setup {
        let fleet: Fleet
        /// The configuration of the app for the operator's program.
        let place: [String]
        /// Messages that reached the simulated Apple, whatever it said to them.
        var requests: Int { self.fleet.simulator.ledger.snapshot.count }

        init(_ fleet: Fleet, _ dispatcher: ServiceProcess) {
            self.fleet = fleet
            self.place = ["--config", "\(dispatcher.directory)/apus.yaml", "--app", Fleet.app]
        }

        @discardableResult
        func channel(_ arguments: String...) throws -> (code: Int32, json: [String: Any]) {
            try self.fleet.apus(["channel"] + arguments + self.place)
        }

        func create(_ options: String...) throws -> String {
            let made = try self.fleet.apus(["channel", "create"] + options + self.place)
            return try #require(made.json["channel"] as? String)
        }

        func send(
            _ channel: String,
            id: String,
            storesLatest: Bool = false,
            _ change: @escaping (inout SendCommand) -> Void = { _ in },
        ) async throws {
            let target = Target.apnsChannel(id: channel, environment: .production, storesLatest: storesLatest)
            try await self.fleet.send(target, id: id) { command in
                var notification = Notification()
                notification.kind = .liveActivity
                var activity = Notification.LiveActivity(event: .update)
                activity.contentStateJSON = #"{"score":1}"#
                notification.liveActivity = activity
                command.notification = notification
                change(&command)
            }
        }

        private func receipt(of send: String, _ kind: SendReceipt.Kind) async throws -> SendReceipt {
            try await eventually("\(send) has its receipt") {
                try await self.fleet.receipts(of: send).contains { $0.kind == kind }
            }
            let receipts = try await self.fleet.receipts(of: send)
            return try #require(receipts.first { $0.kind == kind })
        }

        /// Returns the outcome of a send's only recipient.
        func outcome(of send: String) async throws -> OutcomeCount? {
            let receipt = try await self.receipt(of: send, .final)
            #expect(receipt.planned == 1 && receipt.counts.count == 1, "\(send): \(receipt.counts)")
            return receipt.counts.first
        }

        /// Returns the code and field of a send's refusal.
        func refusal(of send: String) async throws -> String {
            let problem = try await self.receipt(of: send, .refused).problem
            return "\(problem?.code ?? "-") \(problem?.field ?? "-")"
        }
    }

    @Test("D41 what a channel stores is known when it is made: what Apple would refuse is refused here")
    func storage() async throws {
        try await Fleet.with { fleet in
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let setup = Setup(fleet, dispatcher)
            let minute = Notification.Expiry.ttl(milliseconds: 60_000)

            let fleeting = try setup.create()
            try await setup.send(fleeting, id: "claimed", storesLatest: true) { $0.notification.expiry = minute }
            let storesLatest = "contradiction target.apns_channel.stores_latest"
            #expect(try await setup.refusal(of: "claimed") == storesLatest)
            try await setup.send(fleeting, id: "expiring") { $0.notification.expiry = minute }
            #expect(try await setup.refusal(of: "expiring") == "contradiction notification.ttl_ms")
            try await setup.send(fleeting, id: "later", storesLatest: true) { $0.delivery = .atMostOnce }
            #expect(try await setup.refusal(of: "later") == storesLatest)
            #expect(setup.requests == 0, "nothing of these went to Apple")
            try await setup.send(fleeting, id: "fleeting")
            #expect(try await setup.outcome(of: "fleeting")?.outcome == .accepted)
            #expect(setup.requests == 1)

            let kept = try setup.create("--stores-latest")
            try await setup.send(kept, id: "unclaimed")
            #expect(try await setup.refusal(of: "unclaimed") == storesLatest)
            #expect(setup.requests == 1)
            try await setup.send(kept, id: "kept", storesLatest: true) { $0.notification.expiry = minute }
            #expect(try await setup.outcome(of: "kept")?.outcome == .accepted)
            try await setup.send(kept, id: "once", storesLatest: true) { $0.delivery = .atMostOnce }
            #expect(try await fleet.completion(of: "once").total(.accepted) == 1)
            #expect(setup.requests == 3)

            let listed = try setup.channel("list")
            #expect(listed.json["channels"] as? [String] == [fleeting, kept])
            #expect(listed.json["stores_latest"] as? [String: Bool] == [fleeting: false, kept: true])
            #expect(try setup.channel("show", kept).json["stores_latest"] as? Bool == true)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test("D42 a channel that is gone gets no request until it is there again, and the route goes on")
    func gone() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2, providers: [.apns])
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let setup = Setup(fleet, dispatcher)
            let gone = "channel_gone target.apns_channel.channel_id"

            let stranger = "YXB1cy1hcHVzLWFwdXM="
            try await setup.send(stranger, id: "first") { $0.receiptLevel = .recipients }
            let first = try await setup.outcome(of: "first")
            #expect(first?.outcome == .rejected && first?.reason == .unregistered)
            #expect(setup.requests == 1)
            try await setup.send(stranger, id: "second")
            #expect(try await setup.refusal(of: "second") == gone)
            #expect(setup.requests == 1, "Apple is not asked again")
            try await setup.send(stranger, id: "tried-out") { $0.dryRun = true }
            #expect(try await setup.refusal(of: "tried-out") == gone)
            #expect(try setup.channel("show", stranger).code == 1)

            // Known to be gone by the report of a unit, too.
            let other = "YXB1cy1vdGhlci1hcHVzLQ=="
            try await setup.send(other, id: "planned") { $0.delivery = .atMostOnce }
            #expect(try await fleet.completion(of: "planned").total(.rejected) == 1)
            #expect(setup.requests == 2)
            try await setup.send(other, id: "planned-again") { $0.delivery = .atMostOnce }
            #expect(try await setup.refusal(of: "planned-again") == gone)
            #expect(setup.requests == 2)

            let channel = try setup.create()
            try await setup.send(channel, id: "made")
            #expect(try await setup.outcome(of: "made")?.outcome == .accepted)
            let route = Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
            let streams = fleet.installation.streams
            try await streams.channels.record(goneChannel: channel, of: try await streams.routes.number(of: route))
            try await setup.send(channel, id: "mistaken")
            #expect(try await setup.refusal(of: "mistaken") == gone)
            #expect(try setup.channel("show", channel).code == 0)
            try await setup.send(channel, id: "shown")
            #expect(try await setup.outcome(of: "shown")?.outcome == .accepted)
            #expect(setup.requests == 4)
            #expect(try setup.channel("delete", channel).code == 0)
            try await setup.send(channel, id: "deleted")
            #expect(try await setup.refusal(of: "deleted") == gone)
            #expect(setup.requests == 4)

            try await fleet.send(.devices([devices[0].id]), id: "device", lane: .express)
            #expect(try await setup.outcome(of: "device")?.outcome == .accepted)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
