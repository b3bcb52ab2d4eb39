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
    private struct Stage {
        let fleet: Fleet
        /// Where the operator's program finds the app.
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

        /// What became of a send's only recipient.
        func outcome(of send: String) async throws -> OutcomeCount? {
            let receipt = try await self.receipt(of: send, .final)
            #expect(receipt.planned == 1 && receipt.counts.count == 1, "\(send): \(receipt.counts)")
            return receipt.counts.first
        }

        /// Why a send was refused: code and field.
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
            let stage = Stage(fleet, dispatcher)
            let minute = Notification.Expiry.ttl(milliseconds: 60_000)

            let fleeting = try stage.create()
            try await stage.send(fleeting, id: "claimed", storesLatest: true) { $0.notification.expiry = minute }
            let storesLatest = "contradiction target.apns_channel.stores_latest"
            #expect(try await stage.refusal(of: "claimed") == storesLatest)
            try await stage.send(fleeting, id: "expiring") { $0.notification.expiry = minute }
            #expect(try await stage.refusal(of: "expiring") == "contradiction notification.ttl_ms")
            try await stage.send(fleeting, id: "later", storesLatest: true) { $0.delivery = .atMostOnce }
            #expect(try await stage.refusal(of: "later") == storesLatest)
            #expect(stage.requests == 0, "nothing of these went to Apple")
            try await stage.send(fleeting, id: "fleeting")
            #expect(try await stage.outcome(of: "fleeting")?.outcome == .accepted)
            #expect(stage.requests == 1)

            let kept = try stage.create("--stores-latest")
            try await stage.send(kept, id: "unclaimed")
            #expect(try await stage.refusal(of: "unclaimed") == storesLatest)
            #expect(stage.requests == 1)
            try await stage.send(kept, id: "kept", storesLatest: true) { $0.notification.expiry = minute }
            #expect(try await stage.outcome(of: "kept")?.outcome == .accepted)
            try await stage.send(kept, id: "once", storesLatest: true) { $0.delivery = .atMostOnce }
            #expect(try await fleet.completion(of: "once").total(.accepted) == 1)
            #expect(stage.requests == 3)

            let listed = try stage.channel("list")
            #expect(listed.json["channels"] as? [String] == [fleeting, kept])
            #expect(listed.json["stores_latest"] as? [String: Bool] == [fleeting: false, kept: true])
            #expect(try stage.channel("show", kept).json["stores_latest"] as? Bool == true)
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
            let stage = Stage(fleet, dispatcher)
            let gone = "channel_gone target.apns_channel.channel_id"

            let stranger = "YXB1cy1hcHVzLWFwdXM="
            try await stage.send(stranger, id: "first") { $0.receiptLevel = .recipients }
            let first = try await stage.outcome(of: "first")
            #expect(first?.outcome == .rejected && first?.reason == .unregistered)
            #expect(stage.requests == 1)
            try await stage.send(stranger, id: "second")
            #expect(try await stage.refusal(of: "second") == gone)
            #expect(stage.requests == 1, "Apple is not asked again")
            try await stage.send(stranger, id: "tried-out") { $0.dryRun = true }
            #expect(try await stage.refusal(of: "tried-out") == gone)
            #expect(try stage.channel("show", stranger).code == 1)

            // Known to be gone by the report of a unit, too.
            let other = "YXB1cy1vdGhlci1hcHVzLQ=="
            try await stage.send(other, id: "planned") { $0.delivery = .atMostOnce }
            #expect(try await fleet.completion(of: "planned").total(.rejected) == 1)
            #expect(stage.requests == 2)
            try await stage.send(other, id: "planned-again") { $0.delivery = .atMostOnce }
            #expect(try await stage.refusal(of: "planned-again") == gone)
            #expect(stage.requests == 2)

            let channel = try stage.create()
            try await stage.send(channel, id: "made")
            #expect(try await stage.outcome(of: "made")?.outcome == .accepted)
            let route = Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
            let streams = fleet.installation.streams
            try await streams.channels.record(goneChannel: channel, of: try await streams.routes.number(of: route))
            try await stage.send(channel, id: "mistaken")
            #expect(try await stage.refusal(of: "mistaken") == gone)
            #expect(try stage.channel("show", channel).code == 0)
            try await stage.send(channel, id: "shown")
            #expect(try await stage.outcome(of: "shown")?.outcome == .accepted)
            #expect(stage.requests == 4)
            #expect(try stage.channel("delete", channel).code == 0)
            try await stage.send(channel, id: "deleted")
            #expect(try await stage.refusal(of: "deleted") == gone)
            #expect(stage.requests == 4)

            try await fleet.send(.devices([devices[0].id]), id: "device", lane: .express)
            #expect(try await stage.outcome(of: "device")?.outcome == .accepted)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
