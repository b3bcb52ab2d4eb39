import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Testing

/// Keys and accounts that change while a dispatcher runs.
@Suite(.serialized) struct ReloadTests {
    /// Answers slow enough that a send is still under way when the keys have changed.
    private static func slow() -> FaultPlan {
        var plan = FaultPlan(seed: 1)
        plan.apns.delayMilliseconds = 1_000
        plan.fcm.delayMilliseconds = 1_000
        return plan
    }

    /// Reloads of a provider that came to that.
    private static func reloads(_ provider: Provider, _ result: String, _ service: ServiceProcess) async throws -> Int {
        let sample = "apus_provider_credential_reloads_total{provider=\"\(provider.name)\",result=\"\(result)\"} "
        let lines = try await service.get("metrics").body.split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(sample) }) else { return -1 }
        return Int(line.dropFirst(sample.utf8.count)) ?? -1
    }

    /// Replaces texts in the configuration that a service was started with, and asks it to read that again.
    private static func reconfigure(_ service: ServiceProcess, _ changes: [(old: String, new: String)] = []) throws {
        let file = URL(filePath: "\(service.directory)/apus.yaml")
        var text = try String(contentsOf: file, encoding: .utf8)
        for (old, new) in changes {
            #expect(text.contains(old))
            text = text.replacingOccurrences(of: old, with: new)
        }
        try text.write(to: file, atomically: true, encoding: .utf8)
        #expect(kill(service.processID, SIGHUP) == 0)
    }

    private static func keyFile(_ fleet: Fleet) -> String { "\(fleet.folder)/AuthKey_\(SimulatedApp.demo.keyID).p8" }

    @Test func `New keys are used in the middle of a send: nothing is lost, nothing repeated`() async throws {
        try await Fleet.with(faults: Self.slow()) { fleet in
            let devices = try await fleet.register(40_000, topics: { _ in ["news"] })
            let audience = Set(devices.map(\.token))
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "first")
            try await eventually("some are reached") { fleet.accepted(of: "first").count >= 2_000 }

            // The team's second key, and the account's file written anew.
            let old = SimulatedApp.demo
            var rotated = old
            rotated.name = "rotated"
            rotated.keyID = "ROTATED001"
            try fleet.simulator.register([rotated])
            let file = "\(fleet.folder)/AuthKey_\(rotated.keyID).p8"
            let pem = try #require(fleet.simulator.signingKeyPEM(app: "rotated"))
            try pem.write(toFile: file, atomically: true, encoding: .utf8)
            let account = "\(fleet.folder)/\(old.name)-service-account.json"
            try (try String(contentsOfFile: account, encoding: .utf8) + "\n")
                .write(toFile: account, atomically: true, encoding: .utf8)
            let keyID = (old: "\"\(old.keyID)\"", new: "\"\(rotated.keyID)\"")
            try Self.reconfigure(dispatcher, [(Self.keyFile(fleet), file), keyID])
            for provider in [Provider.apns, .fcm] {
                try await eventually("\(provider.name) is sent to with the new one") {
                    try await Self.reloads(provider, "taken", dispatcher) == 1
                }
            }
            #expect(fleet.accepted(of: "first").count < 40_000, "the send was over before the keys changed")
            #expect(try await fleet.completion(of: "first").total(.accepted) == 40_000)
            #expect(Comparison(accepted: fleet.accepted(of: "first"), audience: audience) == .exact)

            // Apple forgets the old key: whoever still used it would be refused.
            var demo = old
            demo.keyID = rotated.keyID
            try fleet.simulator.register([demo])
            fleet.simulator.setFaults(FaultPlan(seed: 1))
            try await fleet.send(.topic("news"), id: "second")
            #expect(try await fleet.completion(of: "second").total(.accepted) == 40_000)
            #expect(Comparison(accepted: fleet.accepted(of: "second"), audience: audience) == .exact)
            #expect(try await dispatcher.metric("apus_dispatcher_retries_total") == 0)
            #expect(try await fleet.deleted(devices) == 0)
            #expect(try await dispatcher.metric("apus_config_last_reload_successful") == 1)
            let expiry = try await dispatcher.metric("apus_provider_credential_expiry_timestamp_seconds")
            let now = Date().timeIntervalSince1970
            #expect((2 * now...2 * (now + 3_600)).contains(expiry), "both within an hour")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Whatever running parts cannot take over is used by new ones, in the same process: routes, rates, addresses.
    @Test
    func
        `An added app and a changed rate are used without a restart in the middle of a send, and what fails is undone`()
        async throws
    {
        try await Fleet.with(faults: Self.slow()) { fleet in
            let devices = try await fleet.register(6_000, topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let token = String(repeating: "cd", count: 32)
            let phone = DeviceRegistration(device: "phone", provider: .apns, token: token)
            _ = try await fleet.installation.store.register(try AppID("second"), phone)
            func send(_ id: String) throws -> Int32 {
                let words = ["send", "--app", "second", "--device", "phone", "--title", "Hi", "--id", id]
                return try fleet.apus(words + ["--wait", "--timeout", "60"]).code
            }
            #expect(try send("early") == 1, "nobody has the app yet")
            try await fleet.send(.topic("news"), id: "first")
            try await eventually("some are reached") { fleet.accepted(of: "first").count >= 100 }

            let text = try String(contentsOfFile: "\(dispatcher.directory)/apus.yaml", encoding: .utf8)
            let section = try #require(text.firstMatch(of: /\n  demo:\n((?:    .*\n)+)/)).1
            let rate = (old: "rate_per_second: unlimited", new: "rate_per_second: 9000")
            try Self.reconfigure(dispatcher, [rate, (old: "admin: {", new: "  second:\n\(section)admin: {")])
            try await eventually("the app is known", timeout: .seconds(120)) { try send("late") == 0 }
            #expect(fleet.accepted(of: "late").count == 1)
            let rows = try #require(try fleet.apus("lag", "--app", "demo").json["routes"] as? [[String: Any]])
            let apple = rows.first { $0["route"] as? String == "demo/apns/production" }
            #expect(rows.count == 2 && apple?["rate_per_second"] as? Double == 9_000)
            #expect(try await fleet.completion(of: "first").total(.accepted) == 6_000)
            let audience = Set(devices.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "first"), audience: audience) == .exact)

            func connections() async throws -> Int {
                let list = try await fleet.redis.command("CLIENT", "LIST").root.string ?? ""
                return list.split(separator: "\n").count { $0.contains("name=apus-dispatcher") }
            }
            let before = try await connections()
            // Its own port is Redis': the service goes on with the former one.
            let taken = try #require(fleet.redis.tcpURL.split(separator: ":").last)
            try Self.reconfigure(dispatcher, [(old: "listen: \"127.0.0.1:0\"", new: "listen: \"127.0.0.1:\(taken)\"")])
            try await eventually("the former settings are used again", timeout: .seconds(120)) {
                (try? await dispatcher.metric("apus_config_last_reload_successful")) == 0
            }
            #expect(dispatcher.log.contains("port \(taken) is in use on 127.0.0.1"))
            #expect(try send("last") == 0)
            try await eventually("the parts that failed have closed their connections") {
                try await connections() <= before
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `An app that is added while a dispatcher waits for Redis is known once Redis is there`() async throws {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let token = String(repeating: "cd", count: 32)
            let phone = DeviceRegistration(device: "phone", provider: .apns, token: token)
            _ = try await fleet.installation.store.register(try AppID("second"), phone)
            await fleet.redis.kill()
            async let starting = fleet.startDispatcher()
            var directory = ""
            func logs(_ text: String) -> Bool {
                ((try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? "").contains(text)
            }
            try await eventually("it waits for Redis") {
                let names = try FileManager.default.contentsOfDirectory(atPath: fleet.folder)
                directory = names.first { $0.hasPrefix("dispatcher-") }.map { "\(fleet.folder)/\($0)" } ?? ""
                return logs("waiting for Redis")
            }
            let file = "\(directory)/apus.yaml"
            let text = try String(contentsOfFile: file, encoding: .utf8)
            let section = try #require(fleet.section(of: Fleet.app)).drop { $0 != "\n" }
            try text.replacingOccurrences(of: "\napps:\n", with: "\napps:\n  second:\(section)")
                .write(toFile: file, atomically: true, encoding: .utf8)
            try await eventually("the new file is read") { logs("configuration taken over") }

            try await fleet.redis.restart()
            let dispatcher = try await starting
            let feedback = try await fleet.startFeedback()
            let words = ["send", "--app", "second", "--device", "phone", "--title", "Hi", "--id", "s"]
            try await eventually("the app is known") {
                try fleet.apus(words + ["--wait", "--timeout", "60"]).code == 0
            }
            #expect(fleet.accepted(of: "s").count == 1)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// The new credential is good at the new address only, and the old one at the old.
    @Test func `An address, a key and an authority that change in one edit are used together`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(100, providers: [.apns], topics: { _ in ["news"] })
            let audience = Set(devices.map(\.token))
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            func refused() throws -> String? {
                let processes = try #require(try fleet.apus("services").json["processes"] as? [[String: Any]])
                let process = processes.first {
                    $0["service"] as? String == "dispatcher" && $0["state"] as? String == "running"
                }
                return process.map { $0["refused_configuration"] as? String } ?? "no process has reported itself"
            }

            var configuration = SimulatorConfiguration()
            let port = (old: try #require(fleet.simulator.addresses.apnsPort), new: try FreePort.find())
            configuration.apnsPort = port.new
            let other = try await Simulator.start(configuration)
            let folder = try TemporaryFolder()
            _ = try other.writeCredentials(to: folder.path)
            try await other.setListening(false, at: .apns)
            let key = "\(folder.path)/AuthKey_\(SimulatedApp.demo.keyID).p8"
            let section = try #require(
                try String(contentsOfFile: "\(dispatcher.directory)/apus.yaml", encoding: .utf8)
                    .firstMatch(of: /\n    apns:\n((?:      .*\n)+)/)
            ).1
            let moved = section.replacingOccurrences(of: " port: \(port.old)\n", with: " port: \(port.new)\n")
                .replacingOccurrences(of: Self.keyFile(fleet), with: key)
                .replacingOccurrences(of: "\(fleet.folder)/ca.pem", with: "\(folder.path)/ca.pem")
            try Self.reconfigure(dispatcher, [(String(section), moved)])

            try await eventually("the address does not answer, which the list of services tells") {
                try refused()?.contains("127.0.0.1:\(port.new) could not be asked") == true
            }
            #expect(try await dispatcher.metric("apus_config_last_reload_successful") == 0)
            let ready = try await dispatcher.get("/readyz")
            #expect(ready.status == 200 && ready.body.contains("former settings stay in use: demo/apns/production"))
            let doctor = try fleet.apus("doctor", "--config", "\(dispatcher.directory)/apus.yaml", "--offline")
            let findings = try #require(doctor.json["findings"] as? [[String: Any]])
            #expect(
                findings.contains { finding in
                    let detail = finding["detail"] as? String
                    return finding["of"] as? String == "dispatcher" && finding["verdict"] as? String == "warn"
                        && detail?.contains("goes on with former settings: demo/apns/production") == true
                }
            )
            try await fleet.send(.topic("news"), id: "old")
            #expect(try await fleet.completion(of: "old").total(.accepted) == 100)
            #expect(Comparison(accepted: fleet.accepted(of: "old"), audience: audience) == .exact)

            try await other.setListening(true, at: .apns)
            try await eventually("it is asked again, and used", timeout: .seconds(60)) { try refused() == nil }
            try await fleet.send(.topic("news"), id: "new")
            #expect(try await fleet.completion(of: "new").total(.accepted) == 100)
            #expect(fleet.accepted(of: "new").isEmpty)
            #expect(other.ledger.snapshot.accepted.count { $0.key.send == "new" } == 100)
            #expect(try await dispatcher.metric("apus_config_last_reload_successful") == 1)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
            await other.stop()
        }
    }

    /// Files are looked at by their contents, without a signal and whoever changed them: an editor that writes a new file in the
    /// old one's place, or Kubernetes, which swaps a symbolic link.
    @Test func `A changed key file is used, and so is one whose link is swapped`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(100, providers: [.apns], topics: { _ in ["news"] })
            let audience = Set(devices.map(\.token))
            let file = Self.keyFile(fleet)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            func expectSending(_ id: String) async throws {
                try await fleet.send(.topic("news"), id: id)
                #expect(try await fleet.completion(of: id).total(.accepted) == 100)
                #expect(Comparison(accepted: fleet.accepted(of: id), audience: audience) == .exact)
            }
            let good = try String(contentsOfFile: file, encoding: .utf8)
            try "not a key".write(toFile: file, atomically: true, encoding: .utf8)
            try await eventually("the rewritten file is read", timeout: .seconds(60)) {
                try await Self.reloads(.apns, "unusable", dispatcher) >= 1
            }
            try await expectSending("rewritten")

            // The same key in another form: nothing but the file's text has changed.
            let store = "\(fleet.folder)/store"
            let manager = FileManager.default
            for (name, text) in [("old", good), ("new", good + "\n")] {
                try manager.createDirectory(atPath: "\(store)/\(name)", withIntermediateDirectories: true)
                try text.write(toFile: "\(store)/\(name)/key.p8", atomically: true, encoding: .utf8)
            }
            func point(to name: String) throws {
                let next = "\(store)/next"
                try manager.createSymbolicLink(atPath: next, withDestinationPath: name)
                #expect(rename(next, "\(store)/current") == 0)
            }
            try point(to: "old")
            try manager.removeItem(atPath: file)
            try manager.createSymbolicLink(atPath: file, withDestinationPath: "\(store)/current/key.p8")
            try await eventually("the link is followed", timeout: .seconds(60)) {
                try await dispatcher.metric("apus_config_last_reload_successful") == 1
            }
            let before = try await Self.reloads(.apns, "taken", dispatcher)
            try point(to: "new")
            try await eventually("the swapped link is followed", timeout: .seconds(60)) {
                try await Self.reloads(.apns, "taken", dispatcher) > before
            }
            try await expectSending("swapped")
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A certificate takes a key's place while running, and one of another app or environment does not`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(500, providers: [.apns], topics: { _ in ["news"] })
            let audience = Set(devices.map(\.token))
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            func expectSending(_ id: String) async throws {
                try await fleet.send(.topic("news"), id: id)
                #expect(try await fleet.completion(of: id).total(.accepted) == 500)
                #expect(Comparison(accepted: fleet.accepted(of: id), audience: audience) == .exact)
            }
            let bundleID = try #require(SimulatedApp.demo.bundleID)
            let file = "\(fleet.folder)/certificate"
            try fleet.simulator.clientCertificatePEM(topics: [bundleID], days: 100)
                .write(toFile: file, atomically: true, encoding: .utf8)
            let app = SimulatedApp.demo
            try Self.reconfigure(
                dispatcher,
                [
                    ("      team_id: \"\(app.teamID)\"\n", ""), ("      key_id: \"\(app.keyID)\"\n", ""),
                    ("key_file: \"\(Self.keyFile(fleet))\"", "certificate_file: \"\(file)\""),
                ]
            )
            try await eventually("the certificate is in use") {
                try await Self.reloads(.apns, "taken", dispatcher) == 1
            }
            // Apple forgets the key: whoever still used it would be refused.
            var forgotten = app
            forgotten.keyID = "FORGOTTEN1"
            try fleet.simulator.register([forgotten])
            try await expectSending("certified")
            let expiry =
                "apus_provider_credential_expiry_timestamp_seconds{route=\"demo/apns/production\",kind=\"certificate\"} "
            let metrics = try await dispatcher.get("metrics").body.split(separator: "\n")
            let jwt = "apus_provider_credential_expiry_timestamp_seconds{route=\"demo/apns/production\",kind=\"jwt\"}"
            #expect(!metrics.contains { $0.hasPrefix(jwt) }, "a key that is not used any more does not expire")
            let seconds = metrics.first { $0.hasPrefix(expiry) }.flatMap { Double($0.dropFirst(expiry.utf8.count)) }
            let days = try #require(seconds).advanced(by: -Date().timeIntervalSince1970) / 86_400
            #expect((99...100).contains(days))
            let checked = try fleet.apus("credentials", "check", "--config", "\(dispatcher.directory)/apus.yaml")
            let apple = (checked.json["routes"] as? [[String: Any]])?
                .first { $0["route"] as? String == "demo/apns/production" }
            #expect(apple?["verdict"] as? String == "taken")
            #expect(apple?["credential"] as? String == "certificate Apple Push Services: \(bundleID)")
            #expect(apple?["expires_ms"] is Int)

            // Topics that the certificate does not name are refused before they are sent.
            try await fleet.send(.topic("news"), id: "call") { $0.notification.kind = .voip }
            try await eventually("it is refused") { try await !fleet.receipts(of: "call").isEmpty }
            let refusal = try #require(try await fleet.receipts(of: "call").first)
            #expect(refusal.kind == .refused && refusal.problem?.code == "topic_not_served")

            let others: [(pem: String, results: [String])] = [
                (try fleet.simulator.clientCertificatePEM(topics: ["com.example.other"]), ["unusable"]),
                (try fleet.simulator.clientCertificatePEM(topics: [bundleID], environments: [.sandbox]), ["unusable"]),
                // Apple does not know who vouches for it, says so and hangs up; its word may be lost with the connection.
                (try Self.foreignCertificatePEM(bundleID), ["refused", "unanswered"]),
            ]
            for (number, other) in others.enumerated() {
                func count() async throws -> Int {
                    var count = 0
                    for result in other.results { count += try await Self.reloads(.apns, result, dispatcher) }
                    return count
                }
                let before = try await count()
                try other.pem.write(toFile: file, atomically: true, encoding: .utf8)
                try Self.reconfigure(dispatcher)
                try await eventually("\(other.results) is told") { try await count() > before }
                try await expectSending("kept-\(number)")
            }
            #expect(try await Self.reloads(.apns, "taken", dispatcher) == 1)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// A certificate that another authority vouches for.
    private static func foreignCertificatePEM(_ bundleID: String) throws -> String {
        let validity = CertificateValidity(from: SystemClock().now())
        let authority = try CertificateAuthority(name: "Nobody", validity: validity)
        let profile = CertificateProfile(.client, commonName: "Push", userID: bundleID, validity: validity)
        let identity = try authority.issue(profile)
        return identity.certificateChainPEM + identity.privateKeyPEM
    }

    @Test func `A password that Redis does not accept yet changes nothing, and is used as soon as it does`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(3)
            let folder = try TemporaryFolder()
            let password = try folder.write("password", Array("one\n".utf8))
            func send(_ index: Int, _ dispatcher: ServiceProcess) async throws {
                try await fleet.send(.devices([devices[index].id]), id: "s\(index)", lane: .express)
                try await eventually("s\(index) arrives") { fleet.accepted(of: "s\(index)").count == 1 }
            }
            let successful = "apus_config_last_reload_successful"
            _ = try await fleet.redis.command("ACL", "SETUSER", "app", "reset", "on", ">one", "~*", "&*", "+@all")
            let dispatcher = try await fleet.startDispatcher()
            try Self.reconfigure(dispatcher, [("redis: {", "redis: {user: app, password_file: '\(password)', ")])
            try await eventually("it is the user") {
                try await fleet.redis.command("CLIENT", "LIST").root.string?.contains("user=app") == true
            }
            try await send(0, dispatcher)

            // The file is ahead of Redis, and an app comes with it.
            try "two\n".write(toFile: password, atomically: true, encoding: .utf8)
            let app = try #require(fleet.section(of: Fleet.app)).drop { $0 != "\n" }
            try Self.reconfigure(dispatcher, [(old: "\napps:\n", new: "\napps:\n  second:\(app)")])
            try await eventually("they are refused") {
                (try? await dispatcher.get("readyz").body)?.contains("redis, second/apns/production") == true
            }
            try await send(1, dispatcher)
            #expect(dispatcher.isRunning && !dispatcher.log.contains("the changed settings failed"))
            _ = try await fleet.redis.command("ACL", "SETUSER", "app", ">two")
            try await eventually("it is taken over") {
                let metrics = try? await dispatcher.get("metrics").body
                return metrics?.contains("\(successful) 1\n") == true
            }
            try await send(2, dispatcher)
            try await eventually("so is the app") {
                let routes = try fleet.apus("lag", "--app", "second").json["routes"] as? [[String: Any]]
                return routes?.contains { $0["route"] as? String == "second/apns/production" } == true
            }
            try await dispatcher.terminate()
        }
    }

    @Test func `A Redis that does not answer changes nothing, and is used as soon as it does`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2)
            let proxy = try await RedisProxy.start(to: fleet.redis.port)
            proxy.set(.ignore)
            let dispatcher = try await fleet.startDispatcher()
            func send(_ index: Int) async throws {
                try await fleet.send(.devices([devices[index].id]), id: "s\(index)", lane: .express)
                try await eventually("s\(index) arrives") { fleet.accepted(of: "s\(index)").count == 1 }
            }
            let ending = "ending the parts, to begin again with the changed settings"
            try Self.reconfigure(dispatcher, [(old: fleet.redis.url, new: proxy.url)])
            try await eventually("it is refused", timeout: .seconds(120)) {
                try await dispatcher.get("readyz").body.contains("former settings stay in use: redis: ")
            }
            #expect(proxy.interceptedCount > 0)
            try await send(0)
            #expect(!dispatcher.log.contains(ending))

            proxy.set(.forward)
            try await eventually("it is used", timeout: .seconds(120)) {
                guard dispatcher.log.contains(ending) else { return false }
                return try await fleet.redis.command("CLIENT", "LIST").root.string?.split(separator: "\n")
                    .contains { $0.contains("name=apus-dispatcher") && $0.contains("addr=127.0.0.1:") } == true
            }
            try await send(1)
            try await dispatcher.terminate()
            await proxy.stop()
        }
    }

    @Test func `A bad key is logged, and the old one stays in use`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(200, providers: [.apns], topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let file = Self.keyFile(fleet)
            let good = try String(contentsOfFile: file, encoding: .utf8)
            func expectSending(_ id: String) async throws {
                try await fleet.send(.topic("news"), id: id)
                #expect(try await fleet.completion(of: id).total(.accepted) == 200)
                let audience = Set(devices.map(\.token))
                #expect(Comparison(accepted: fleet.accepted(of: id), audience: audience) == .exact)
            }
            try await expectSending("before")

            try "not a key".write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("it is unusable") { try await Self.reloads(.apns, "unusable", dispatcher) >= 1 }
            try await eventually("the configuration counts as bad") {
                try await dispatcher.metric("apus_config_last_reload_successful") == 0
            }
            try await expectSending("unusable")

            // A key of the right form that Apple does not know under that name.
            var stranger = SimulatedApp.demo
            stranger.name = "stranger"
            stranger.keyID = "STRANGER01"
            try fleet.simulator.register([stranger])
            try #require(fleet.simulator.signingKeyPEM(app: "stranger"))
                .write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("it is refused") { try await Self.reloads(.apns, "refused", dispatcher) >= 1 }
            #expect(dispatcher.log.contains("InvalidProviderToken"))
            let checked = try fleet.apus("credentials", "check", "--config", "\(dispatcher.directory)/apus.yaml")
            let rows = try #require(checked.json["routes"] as? [[String: Any]])
            #expect(checked.code == 2 && rows.count == 2)
            let apple = rows.first { $0["route"] as? String == "demo/apns/production" }
            #expect(apple?["verdict"] as? String == "refused")
            #expect((apple?["reason"] as? String)?.contains("InvalidProviderToken") == true)
            #expect(apple?["credential"] as? String == "team APUSTEAM01, key APUSKEY001")
            let cure = "Compare team_id APUSTEAM01 and key_id APUSKEY001 with Apple's console"
            #expect((apple?["cure"] as? String)?.hasPrefix(cure) == true)
            let google = rows.first { $0["route"] as? String == "demo/fcm/production" }
            #expect(google?["verdict"] as? String == "taken")
            try await expectSending("refused")

            // New parts would use the refused key: settings that need them wait.
            let drain = (old: "drain_timeout: 10s", new: "drain_timeout: 11s")
            try Self.reconfigure(dispatcher, [drain])
            try await eventually("they wait for the key") {
                try await dispatcher.get("readyz").body.contains(
                    "drain_timeout: they wait until every credential is good"
                )
            }
            try await expectSending("held")
            try Self.reconfigure(dispatcher, [(old: drain.new, new: drain.old)])

            try good.write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("all is well") {
                try await dispatcher.metric("apus_config_last_reload_successful") == 1
            }
            try await expectSending("after")
            #expect(try await Self.reloads(.apns, "taken", dispatcher) == 0)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
