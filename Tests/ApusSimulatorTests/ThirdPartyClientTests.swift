import ApusCore
import ApusSimulator
import Foundation
import Synchronization
import Testing

/// Client libraries from PyPI, loose on the strict simulator: what they send is taken, and what it answers they understand.
///
/// `Scripts/setup` installs them into `.build/python`.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ThirdPartyClientTests {
    private static let python = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: ".build/python/bin/python3").path()

    /// Runs a program; the JSON of its last line.
    private func run(_ program: String, _ arguments: [String], trusting caFile: String) async throws -> JSONValue {
        try #require(
            FileManager.default.isExecutableFile(atPath: Self.python),
            "\(Self.python) is not there: Scripts/setup makes it",
        )
        let process = Process()
        let output = Pipe()
        let complaints = URL(filePath: caFile).deletingLastPathComponent().appending(path: "complaints")
        try Data().write(to: complaints)
        process.executableURL = URL(filePath: Self.python)
        process.arguments = ["-c", program] + arguments
        var environment = ProcessInfo.processInfo.environment
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"] { environment[name] = caFile }
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { environment[name] = nil }
        process.environment = environment
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: complaints)
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let said = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let text = String(decoding: said, as: UTF8.self)
        let complaint = try String(contentsOf: complaints, encoding: .utf8)
        try #require(process.terminationStatus == 0, "\(text)\n\(complaint)")
        return try JSONValue(parsing: String(text.split(separator: "\n").last ?? ""), bytesMax: 1 << 20)
    }

    private func withFiles(_ simulator: Simulator, _ body: (SimulatorCredentials) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(try simulator.writeCredentials(to: folder))
    }

    // MARK: Apple

    /// Only host and port are changed, by a subclass: aioapns has no setting for them.
    private static let aioapns = #"""
        import asyncio, json, ssl, sys
        from aioapns import APNs, NotificationRequest, PushType
        from aioapns.connection import APNsProductionClientProtocol

        port, key_file, ca_file = int(sys.argv[1]), sys.argv[2], sys.argv[3]

        class Simulated(APNsProductionClientProtocol):
            APNS_SERVER, APNS_PORT = "localhost", port

        def token(number):
            return "%064x" % (number + 1)

        def request(number, **changes):
            words = dict(device_token=token(number), message={"aps": {"alert": "hello"}, "apus.send": "aioapns"},
                         push_type=PushType.ALERT)
            words.update(changes)
            return NotificationRequest(**words)

        async def main():
            client = APNs(key=open(key_file).read(), key_id="APUSKEY001", team_id="APUSTEAM01",
                          topic="example.apus.demo", max_connections=2,
                          ssl_context=ssl.create_default_context(cafile=ca_file))
            client.pool.protocol_class = Simulated
            async def quiet(request, result): pass
            client.err_func = quiet
            # As with Apple: one request until the connection knows the key.
            first = await client.send_notification(request(0))
            rest = await asyncio.gather(*(client.send_notification(request(n)) for n in range(1, 200)))
            refused = []
            for changed in [request(900), request(901), request(902), request(3, push_type=None),
                            request(3, message={"aps": {"alert": "x" * 5000}}),
                            request(3, message={"aps": {"content-available": 1}}, push_type=PushType.BACKGROUND),
                            request(3, collapse_key="c" * 65)]:
                result = await client.send_notification(changed)
                refused.append([int(result.status), result.description, result.timestamp])
            client.pool.close()
            print(json.dumps({"accepted": sum(r.is_successful for r in [first, *rest]), "refused": refused}))

        asyncio.run(main())
        """#

    @Test func `aioapns sends, and reads each refusal as it would from Apple`() async throws {
        try await withSimulator { simulator in
            try await self.withFiles(simulator) { files in
                func token(_ number: Int) -> String {
                    let digits = String(number + 1, radix: 16)
                    return String(repeating: "0", count: 64 - digits.count) + digits
                }
                simulator.declare(.dead(since: UnixMilliseconds(1_700_000_000_123)), of: token(900), provider: .apns)
                simulator.declare(.bad, of: token(901), provider: .apns)
                simulator.declare(.foreign, of: token(902), provider: .apns)
                let port = try #require(simulator.addresses.apnsPort)
                let keyFile = try #require(files.apps[0].keyFile)
                let result = try await self.run(
                    Self.aioapns,
                    ["\(port)", keyFile, files.authorityFile],
                    trusting: files.authorityFile
                )
                #expect(result["accepted"]?.int64 == 200)
                #expect(
                    result["refused"]?.text == #"[[410,"Unregistered",1700000000123],[400,"BadDeviceToken",null],"#
                        + #"[400,"DeviceTokenNotForTopic",null],[400,"InvalidPushType",null],"#
                        + #"[413,"PayloadTooLarge",null],[400,"BadPriority",null],[400,"BadCollapseId",null]]"#
                )
                let accepted = simulator.ledger.snapshot.accepted.filter { $0.key.send == "aioapns" }
                #expect(accepted.count == 200 && accepted.values.allSatisfy { $0 == 1 })
            }
        }
    }

    // MARK: Google

    /// Only the addresses are changed; firebase-admin has neither a setting nor an environment variable for them. The token
    /// endpoint stands in the service account's file, as it does at Google. `send` and topics speak HTTP/1.1, `send_each_async`
    /// HTTP/2; topics go by FCM's own interface, the legacy ones by Instance ID.
    private static let firebaseAdmin = #"""
        import asyncio, json, sys
        import firebase_admin
        from firebase_admin import credentials, exceptions, messaging

        base, account = sys.argv[1], sys.argv[2]
        service = messaging._MessagingService
        service.FCM_URL = base + "/v1/projects/{0}/messages:send"
        service.IID_URL = base
        firebase_admin.initialize_app(credentials.Certificate(account))

        def message(**target):
            return messaging.Message(
                notification=messaging.Notification(title="Hello", body="World"), data={"apus_send": "firebase"},
                android=messaging.AndroidConfig(ttl=3600, priority="high", notification=messaging.AndroidNotification(
                    color="#112233", channel_id="c", notification_count=1)),
                apns=messaging.APNSConfig(headers={"apns-priority": "10"}, payload=messaging.APNSPayload(
                    messaging.Aps(badge=1, sound="default"))),
                webpush=messaging.WebpushConfig(fcm_options=messaging.WebpushFCMOptions(link="https://example.com/")),
                **target)

        names = [messaging.send(message(token="device:0")), messaging.send(message(topic="news")),
                 messaging.send(message(condition="'news' in topics && !('muted' in topics)")),
                 messaging.send(message(token="device:1"), dry_run=True)]
        refused = []
        for token in ["device:dead", "device:foreign", "device:bad"]:
            try:
                messaging.send(message(token=token))
            except exceptions.FirebaseError as error:
                refused.append([type(error).__name__, error.code])
        each = asyncio.run(messaging.send_each_async([message(token="device:%d" % n) for n in range(100, 150)]))
        messaging._get_messaging_service(firebase_admin.get_app())._fcm_topic_url = (
            base + "/v1/projects/apus-demo/registrations")
        topics = [messaging.subscribe_to_topic(["device:0", "device:dead", "device:2"], "news"),
                  messaging.subscribe_to_topic_legacy(["device:0", "device:dead", "device:2"], "legacy")]
        left = [messaging.unsubscribe_from_topic(["device:2", "device:9"], "news"),
                messaging.unsubscribe_from_topic_legacy(["device:0"], "legacy")]
        print(json.dumps({"names": len(set(names)), "refused": refused, "each": each.success_count,
            "subscribed": [t.success_count for t in topics],
            "errors": [[e.index, e.reason] for t in topics for e in t.errors],
            "left": [t.success_count for t in left]}))
        """#

    @Test func `firebase-admin sends over HTTP/1.1 and HTTP/2, manages a topic, and understands each refusal`()
        async throws
    {
        try await withSimulator { simulator in
            try await self.withFiles(simulator) { files in
                simulator.declare(.dead(since: UnixMilliseconds(5)), of: "device:dead", provider: .fcm)
                simulator.declare(.foreign, of: "device:foreign", provider: .fcm)
                simulator.declare(.bad, of: "device:bad", provider: .fcm)
                let base = "https://localhost:\(try #require(simulator.addresses.fcmPort))"
                let account = try #require(files.apps[0].serviceAccountFile)
                let result = try await self.run(Self.firebaseAdmin, [base, account], trusting: files.authorityFile)
                #expect(result["names"]?.int64 == 4)
                #expect(
                    result["refused"]?.text == #"[["UnregisteredError","NOT_FOUND"],"#
                        + #"["SenderIdMismatchError","PERMISSION_DENIED"],["InvalidArgumentError","INVALID_ARGUMENT"]]"#
                )
                #expect(result["each"]?.int64 == 50)
                #expect(result["subscribed"]?.text == "[2,2]")
                #expect(result["errors"]?.text == #"[[1,"UNREGISTERED"],[1,"NOT_FOUND"]]"#)
                #expect(result["left"]?.text == "[2,1]")
                #expect(simulator.topicSubscribers("news") == ["device:0"])
                #expect(simulator.topicSubscribers("legacy") == ["device:2"])
                let tokens = simulator.ledger.snapshot.accepted.filter { $0.key.send == "firebase" }.keys.map(\.token)
                let expected =
                    ["device:0", "/topics/news", "'news' in topics && !('muted' in topics)"]
                    + (100..<150).map { "device:\($0)" }
                #expect(Set(tokens) == Set(expected))
            }
        }
    }

    // MARK: Browsers

    /// Connections are led to the simulator; everything else is as with the push services.
    private static let pywebpush = #"""
        import json, sys
        import urllib3.util.connection
        from pywebpush import webpush, WebPushException

        port, key_file, subscriptions = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
        connect = urllib3.util.connection.create_connection
        urllib3.util.connection.create_connection = lambda address, *rest, **more: connect(("127.0.0.1", port), *rest, **more)

        def send(subscription, text, **words):
            return webpush(subscription, data=text, vapid_private_key=key_file,
                           vapid_claims={"sub": "mailto:push@apus.example"}, ttl=60, **words).status_code

        taken = [send(subscription, "hello " + subscription["endpoint"]) for subscription in subscriptions[:-1]]
        try:
            send(subscriptions[-1], "nobody")
            refused = None
        except WebPushException as error:
            refused = error.response.status_code
        print(json.dumps({"taken": taken, "refused": refused}))
        """#

    @Test func `pywebpush sends to the push services, which decrypt what it encrypts`() async throws {
        try await withSimulator { simulator in
            try await self.withFiles(simulator) { files in
                let browsers = [SimulatedBrowser.Service.google, .mozilla, .apple].map {
                    SimulatedBrowser(endpoint: $0.endpoint("theirs"))
                }
                let gone = SimulatedBrowser(endpoint: SimulatedBrowser.Service.google.endpoint("gone"))
                simulator.declare(.dead(since: UnixMilliseconds(5)), of: gone.endpoint, provider: .webpush)
                let contents = Mutex<[String]>([])
                simulator.observe { request in
                    let endpoint = "https://\(request.authority)\(request.path)"
                    let content = SimulatedBrowser(endpoint: endpoint).decrypt(request.body) ?? []
                    contents.withLock { $0.append(String(decoding: content, as: UTF8.self)) }
                }
                let result = try await self.run(
                    Self.pywebpush,
                    [
                        "\(try #require(simulator.addresses.webPushPort))",
                        try #require(files.apps[0].vapidKeyFiles.first),
                        JSONValue.array((browsers + [gone]).map(\.subscription)).text,
                    ],
                    trusting: files.authorityFile,
                )
                #expect(result["taken"]?.text == "[201,201,201]")
                #expect(result["refused"]?.int64 == 410)
                #expect(contents.withLock { $0 } == browsers.map { "hello \($0.endpoint)" })
            }
        }
    }
}
