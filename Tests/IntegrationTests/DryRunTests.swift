import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// `apus send --dry-run` against a configuration, a store and a simulated Google.
@Suite(.serialized) struct DryRunTests {
    /// The configuration of a dispatcher that has been started and has ended.
    private static func configuration(_ fleet: Fleet) async throws -> String {
        let dispatcher = try await fleet.startDispatcher()
        try await dispatcher.terminate()
        return "\(dispatcher.directory)/apus.yaml"
    }

    private static func tryOut(
        _ fleet: Fleet,
        _ file: String,
        _ words: [String],
    ) throws -> (code: Int32, json: [String: Any]) {
        let order = ["send", "--dry-run", "--config", file, "--app", Fleet.app, "--topic", "news"]
        return try fleet.apus(order + words)
    }

    @Test func `A dry run shows whom a send would reach and what they would get, and sends nothing`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(3_000, topics: { $0 < 2_000 ? ["news"] : ["other"] })
            let file = try await Self.configuration(fleet)
            let body = String(repeating: "long ", count: 60)
            let run = try Self.tryOut(fleet, file, ["--title", "Swifts", "--body", body, "--ttl", "0s"])
            #expect(run.code == 0)
            #expect(run.json["recipients"] as? Int == 2_000)
            let audiences = try #require(run.json["audiences"] as? [[String: Any]])
            for provider in [Provider.apns, .fcm] {
                let row = audiences.first { $0["route"] as? String == "\(Fleet.app)/\(provider.name)/production" }
                let expected = devices.prefix(2_000).filter { $0.provider == provider }.count
                #expect(row?["recipients"] as? Int == expected)
            }

            let renderings = try #require(run.json["renderings"] as? [[String: Any]])
            #expect(renderings.count == 2)
            let apple = try #require(renderings.first { ($0["route"] as? String)?.contains("apns") == true })
            let payload = try #require(apple["payload"] as? String)
            #expect(apple["payload_bytes"] as? Int == payload.utf8.count)
            #expect(apple["payload_bytes_max"] as? Int == 4_096)
            let headers = try #require(apple["headers"] as? [String: String])
            #expect(headers["apns-push-type"] == "alert" && headers["apns-expiration"] == "0")
            let google = try #require(renderings.first { ($0["route"] as? String)?.contains("fcm") == true })
            #expect((google["payload"] as? String)?.contains("\"token\":\"<token>\"") == true)

            let lints = try #require(run.json["lints"] as? [[String: Any]])
            #expect(Set(lints.compactMap { $0["code"] as? String }) == ["truncated", "one_attempt"])
            let verdicts = try #require(run.json["verdicts"] as? [[String: Any]])
            #expect(verdicts.count == 1 && verdicts.first?["taken"] as? Bool == true)

            #expect(fleet.simulator.ledger.snapshot.accepted.isEmpty)
            #expect(try await fleet.remainingEntries() == [:])
        }
    }

    @Test func `An audience held by FCM is one message, which FCM validates and nobody gets`() async throws {
        try await Fleet.with { fleet in
            let file = try await Self.configuration(fleet)
            func tryOut(_ body: String) throws -> (code: Int32, json: [String: Any]) {
                try fleet.apus([
                    "send", "--dry-run", "--config", file, "--app", Fleet.app, "--fcm-topic", "news", "--body", body,
                ])
            }
            let run = try tryOut("Swifts")
            #expect(run.code == 0 && run.json["recipients"] is NSNull)
            let renderings = try #require(run.json["renderings"] as? [[String: Any]])
            #expect(renderings.count == 1 && renderings.first?["payload_bytes_max"] as? Int == 2_048)
            #expect((renderings.first?["payload"] as? String)?.contains("\"topic\":\"news\"") == true)
            let lints = try #require(run.json["lints"] as? [[String: Any]])
            #expect(lints.contains { $0["code"] as? String == "held_by_fcm" })
            let verdicts = try #require(run.json["verdicts"] as? [[String: Any]])
            #expect(verdicts.count == 1 && verdicts.first?["taken"] as? Bool == true)
            #expect(try tryOut(String(repeating: "x", count: 2_049)).code == 1)
            #expect(fleet.simulator.ledger.snapshot.accepted.isEmpty)
            #expect(try await fleet.remainingEntries() == [:])
        }
    }

    @Test func `A dry run shows what FCM would refuse, and what no dispatcher would accept`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(10, providers: [.fcm], topics: { _ in ["news"] })
            let file = try await Self.configuration(fleet)
            fleet.simulator.declare(.foreign, of: devices.map(\.token), provider: .fcm)
            let refused = try Self.tryOut(fleet, file, ["--title", "Swifts"])
            let verdicts = try #require(refused.json["verdicts"] as? [[String: Any]])
            #expect(refused.code == 1 && verdicts.first?["taken"] as? Bool == false)
            #expect(verdicts.first?["reason"] as? String == "SENDER_ID_MISMATCH")
            let tooLarge = String(repeating: "x", count: 4_096)
            let broken = try Self.tryOut(fleet, file, ["--body", tooLarge])
            #expect(broken.code == 1 && broken.json.isEmpty)
            #expect(try await fleet.remainingEntries() == [:])
        }
    }

    @Test func `Dead tokens decide nothing about the message, every language is validated, and a file has all results`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(20, topics: { _ in ["news"] }).filter { $0.provider == .fcm }
            let file = try await Self.configuration(fleet)
            let notification = "\(fleet.folder)/notification.json"
            let text =
                #"{"badge_set":1,"content_available":true,"priority":"normal","collapse_key":"score","variants":[{"locale":"de","title":"Mauersegler"}]}"#
            try Data(text.utf8).write(to: URL(filePath: notification))
            let run = try Self.tryOut(fleet, file, ["--notification", notification])
            #expect(run.code == 0)
            let lints = try #require(run.json["lints"] as? [[String: Any]])
            #expect(
                Set(lints.compactMap { $0["code"] as? String }).isSuperset(of: ["priority", "push_type", "collapse"])
            )
            let verdicts = try #require(run.json["verdicts"] as? [[String: Any]])
            #expect(verdicts.map { $0["locale"] as? String } == ["", "de"])
            #expect(verdicts.allSatisfy { $0["taken"] as? Bool == true })

            let dead = TokenBehavior.dead(since: UnixMilliseconds(SystemClock().now().value))
            fleet.simulator.declare(dead, of: devices.map(\.token), provider: .fcm)
            // A question may end without an answer on a busy machine: then it is asked again.
            try await eventually("all tokens are dead, and nothing is known of the message") {
                let unknown = try Self.tryOut(fleet, file, ["--notification", notification])
                let words = try #require(unknown.json["verdicts"] as? [[String: Any]])
                return unknown.code == 0 && words.count == 1 && words.first?["taken"] is NSNull
                    && words.first?["reason"] as? String == "UNREGISTERED"
            }
            // One that is dead, and then one that is not.
            let order = ["send", "--dry-run", "--config", file, "--app", Fleet.app]
            let tokens = ["--address", "fcm:\(devices[0].token)", "--address", "fcm:device:of-ada"]
            try await eventually("another token is taken") {
                let other = try fleet.apus(order + tokens + ["--title", "Hi"])
                let taken = try #require(other.json["verdicts"] as? [[String: Any]])
                return other.code == 0 && taken.count == 1 && taken.first?["taken"] as? Bool == true
            }
            #expect(try fleet.apus(order + ["--topic", "news", "--notification", "/nowhere/n.json"]).code == 64)
            #expect(fleet.simulator.ledger.snapshot.accepted.isEmpty)
        }
    }

    /// Asks for a dry run over HTTP, which is answered with what was rendered, and searches the list for a send that it does not have.
    private static func askOverHTTP(_ fleet: Fleet, _ device: String) async throws {
        let (registration, port) = try await fleet.startRegistration()
        let made = try fleet.apus("key", "create", "--app", Fleet.app, "--role", "publish", "backend")
        let key = try #require(made.json["key"] as? String)
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: port,
            on: MultiThreadedEventLoopGroup.singleton
        )
        func ask(_ method: String, _ path: String, _ body: String = "") async throws -> (Int, [String: Any]) {
            let headers = [("content-type", "application/json"), ("authorization", "Bearer \(key)")]
            let request = HTTPClientRequest(
                method,
                "/v1/apps/\(Fleet.app)/\(path)",
                headers: headers,
                body: Array(body.utf8)
            )
            let answer = try await connection.send(request)
            return (answer.status, try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] ?? [:])
        }
        try await eventually("the key is known") { try await ask("GET", "sends").0 == 200 }
        let body = """
            {"dry_run": true, "target": {"topic": "news"}, "notification": {"title": "Swifts", "variants": [
            {"locale": "de", "title": "Mauersegler"}]}}
            """
        // On a machine with other load the result may come after the answer, which says where to ask for it.
        var (status, json) = try await ask("POST", "sends", body)
        if status == 202 {
            let send = try #require(json["send"] as? String)
            try await eventually("the dry run has ended") {
                (status, json) = try await ask("GET", "sends/\(send)")
                return json["state"] as? String == "done"
            }
        }
        #expect(status == 200 && json["planned"] as? Int == 2_000 && json["open"] as? Int == 2_000)
        let found = try #require(json["dry_run"] as? [String: Any])
        let renderings = try #require(found["renderings"] as? [[String: Any]])
        #expect(renderings.count == 4)
        for rendering in renderings {
            let isGerman = rendering["locale"] as? String == "de"
            #expect((rendering["payload"] as? String)?.contains(isGerman ? "Mauersegler" : "Swifts") == true)
            #expect((rendering["headers"] as? [String: String])?.isEmpty == false)
        }
        #expect(fleet.simulator.ledger.snapshot.count == 0)

        try await fleet.send(.devices([device]), id: "direct-1", lane: .express)
        try await eventually("the direct send is found by its whole id") {
            let sends = try await ask("GET", "sends?search=direct-1").1["sends"] as? [[String: Any]] ?? []
            return sends.map { $0["send"] as? String } == ["direct-1"] && sends[0]["accepted"] as? Int == 1
        }
        #expect((try await ask("GET", "sends?search=direct-").1["sends"] as? [Any])?.isEmpty == true)
        await connection.close()
        try await registration.terminate()
    }

    @Test func `A dry run by command gets a receipt, and sends no notification`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(3_000, topics: { $0 < 2_000 ? ["news"] : ["other"] })
            let dispatcher = try await fleet.startDispatcher()
            let title = String(repeating: "long ", count: 60)
            try await fleet.send(.topic("news"), id: "dry") { command in
                command.dryRun = true
                command.notification.title = title
            }
            try await eventually("the receipt is there") { try await !fleet.receipts(of: "dry").isEmpty }
            let receipt = try #require(try await fleet.receipts(of: "dry").first)
            #expect(receipt.kind == .dryRun && receipt.planned == 2_000 && receipt.problem == nil)
            for provider in [Provider.apns, .fcm] {
                let expected = devices.prefix(2_000).count { $0.provider == provider }
                let open = receipt.counts.filter { $0.provider == provider && $0.outcome == .open }
                #expect(open.map(\.count) == [UInt64(expected)])
            }
            #expect(receipt.renderings.map(\.provider) == [.apns, .fcm])
            #expect(receipt.renderings.allSatisfy { $0.payloadBytes > 300 && $0.payloadBytesMax == 4_096 })
            #expect(receipt.renderings.allSatisfy { $0.payload.contains(title) && !$0.headers.isEmpty })
            #expect(receipt.renderings[0].headers.contains("apns-push-type: alert"))
            #expect(receipt.lints.map(\.code) == ["truncated"])

            try await fleet.send(.topic("news"), id: "wrong") { command in
                command.dryRun = true
                command.notification.body = String(repeating: "x", count: 4_096)
            }
            try await eventually("it is refused") { try await !fleet.receipts(of: "wrong").isEmpty }
            let refusal = try #require(try await fleet.receipts(of: "wrong").first)
            #expect(refusal.kind == .refused && refusal.problem != nil)
            #expect(fleet.simulator.ledger.snapshot.count == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await Self.askOverHTTP(fleet, devices[0].id)
            try await dispatcher.terminate()
        }
    }
}
