import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusTLS
import ApusTestKit
import FoundationEssentials
import NIOPosix
import Testing

/// A real Firefox subscribes, is sent to by way of the simulated Mozilla service, and decrypts what it gets.
@Suite(.serialized) struct FirefoxTests {
    /// Subscribes, and reports the subscription. While Firefox starts it forgets such requests, so the page asks until it has an answer.
    private static let subscribePage = """
        <script>
        const post = (path, body) => fetch(path, {method: "POST", body});
        (async () => {
            try {
                await navigator.serviceWorker.register("/sw.js");
                const worker = await navigator.serviceWorker.ready;
                const text = new URLSearchParams(location.search).get("key").replaceAll("-", "+").replaceAll("_", "/");
                const applicationServerKey = Uint8Array.from(atob(text), character => character.charCodeAt(0));
                const options = {userVisibleOnly: true, applicationServerKey};
                const later = () => new Promise(done => setTimeout(done, 2000));
                let subscription;
                while (!subscription) {
                    subscription = await Promise.race([worker.pushManager.subscribe(options), later()]);
                }
                await post("/subscription", JSON.stringify(subscription));
            } catch (error) { await post("/error", String(error)); }
        })();
        </script>
        """

    private static let unsubscribePage = """
        <script>
        const post = (path, body) => fetch(path, {method: "POST", body});
        (async () => {
            try {
                const worker = await navigator.serviceWorker.ready;
                const later = () => new Promise(done => setTimeout(done, 2000));
                let subscription;
                while (!subscription) {
                    subscription = await Promise.race([worker.pushManager.getSubscription(), later()]);
                }
                await post("/unsubscribed", String(await subscription.unsubscribe()));
            } catch (error) { await post("/error", String(error)); }
        })();
        </script>
        """

    private static let worker = """
        self.addEventListener("push", event =>
            event.waitUntil(fetch("/received", {method: "POST", body: event.data.text()})));
        """

    /// The settings of a browser that asks nobody anything, and whose push service is the simulator.
    private static func preferences(controlPort: Int) -> String {
        let values: [(String, String)] = [
            ("dom.push.serverURL", "\"ws://127.0.0.1:\(controlPort)/push\""),
            ("dom.push.testing.allowInsecureServerURL", "true"),
            ("permissions.default.desktop-notification", "1"), ("app.update.enabled", "false"),
            ("browser.safebrowsing.update.enabled", "false"), ("browser.shell.checkDefaultBrowser", "false"),
            ("datareporting.policy.dataSubmissionEnabled", "false"), ("extensions.update.enabled", "false"),
            ("network.captive-portal-service.enabled", "false"), ("network.connectivity-service.enabled", "false"),
            ("browser.startup.homepage_override.mstone", "\"ignore\""),
            ("browser.sessionstore.resume_from_crash", "false"), ("toolkit.startup.max_resumed_crashes", "-1"),
        ]
        return values.map { "user_pref(\"\($0.0)\", \($0.1));\n" }.joined()
    }

    /// Runs Firefox with a page until the body has ended.
    private static func browse(
        _ page: String,
        _ receiver: WebhookReceiver,
        _ directory: String,
        _ body: () async throws -> Void,
    ) async throws {
        let firefox = try await WatchedProcess(
            [
                "/usr/bin/env", "HOME=\(directory)", "firefox-esr", "--headless", "--no-remote", "--profile",
                "\(directory)/profile", "http://127.0.0.1:\(receiver.port)\(page)",
            ],
            directory: directory,
        )
        do {
            try await body()
        } catch {
            let problems = receiver.requests.filter { $0.path == "/error" }.map {
                String(decoding: $0.body, as: UTF8.self)
            }
            Issue.record("Firefox (pid \(firefox.pid), running: \(firefox.isRunning)) reported \(problems): \(error)")
            await firefox.end(keepingDirectory: true)
            throw error
        }
        await firefox.end(keepingDirectory: true)
    }

    private static func bodies(_ path: String, _ receiver: WebhookReceiver) -> [JSONValue] {
        receiver.requests.filter { $0.path == path }.compactMap { try? JSONValue(parsing: $0.body, bytesMax: 8_192) }
    }

    private static func send(_ id: String, _ fleet: Fleet) async throws {
        try await fleet.send(.devices(["firefox"]), id: id, lane: .express) { command in
            command.notification = Notification()
            command.notification.title = "Tee für \(id) ☕"
            command.notification.expiry = .ttl(milliseconds: 600_000)
        }
    }

    @Test func `A real browser gets what was rendered, also when it was away, and is pruned when it has unsubscribed`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = true
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(utf8: "browsers"))
        configuration.simulator.controlPort = 0
        try await Fleet.with(configuration) { fleet in
            let serverKey = try #require(fleet.simulator.applicationServerKey(app: Fleet.app))
            let subscribe = "/subscribe?key=\(serverKey)"
            let receiver = try await WebhookReceiver.start(pages: [
                subscribe: WebhookReceiver.Page(type: "text/html", text: Self.subscribePage),
                "/unsubscribe": WebhookReceiver.Page(type: "text/html", text: Self.unsubscribePage),
                "/away": WebhookReceiver.Page(type: "text/html", text: "<p>Nothing</p>"),
                "/sw.js": WebhookReceiver.Page(type: "text/javascript", text: Self.worker),
            ])
            let folder = try TemporaryFolder()
            let directory = folder.path
            try FileManager.default.createDirectory(atPath: "\(directory)/profile", withIntermediateDirectories: false)
            let port = try #require(fleet.simulator.addresses.controlPort)
            _ = try folder.write("profile/user.js", Self.preferences(controlPort: port))
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()

            try await Self.browse(subscribe, receiver, directory) {
                try await eventually("the browser subscribes", timeout: .seconds(90)) {
                    !Self.bodies("/subscription", receiver).isEmpty
                }
                try await Self.register(Self.bodies("/subscription", receiver)[0], serverKey, fleet)
                try await Self.send("one", fleet)
                try await eventually("the browser has it", timeout: .seconds(60)) {
                    Self.bodies("/received", receiver).count == 1
                }
            }
            let titles = { Self.bodies("/received", receiver).map { $0["notification"]?["title"]?.string } }
            #expect(titles() == ["Tee für one ☕"])

            try await Self.send("two", fleet)
            try await eventually("the push service has it") {
                fleet.simulator.ledger.snapshot.timeline.accepted(.webpush, from: 0) == 2
            }
            try await Self.browse("/away", receiver, directory) {
                try await eventually("the browser has what came while it was away", timeout: .seconds(90)) {
                    Self.bodies("/received", receiver).count == 2
                }
            }
            #expect(titles().last == "Tee für two ☕")

            try await Self.browse("/unsubscribe", receiver, directory) {
                try await eventually("the browser unsubscribes", timeout: .seconds(90)) {
                    receiver.requests.contains { $0.path == "/unsubscribed" }
                }
            }
            try await Self.send("three", fleet)
            let app = try AppID(Fleet.app)
            try await eventually("who has unsubscribed is pruned") {
                try await fleet.installation.store.get(app, try DeviceID("firefox")) == nil
            }
            #expect(titles().count == 2)
            try await dispatcher.terminate()
            try await feedback.terminate()
            await receiver.stop()
        }
    }

    /// Registers the browser by HTTP, with the subscription as the browser gave it.
    private static func register(_ subscription: JSONValue, _ serverKey: String, _ fleet: Fleet) async throws {
        let (registration, port) = try await fleet.startRegistration()
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: port,
            on: MultiThreadedEventLoopGroup.singleton
        )
        let body: JSONValue = [
            "provider": "webpush", "subscription": subscription, "application_server_key": .string(serverKey),
        ]
        let answer = try await connection.send(
            HTTPClientRequest(
                "PUT",
                "/v1/apps/\(Fleet.app)/devices/firefox",
                headers: [("content-type", "application/json"), ("authorization", "Bearer browsers")],
                body: body.bytes,
            )
        )
        #expect(answer.status == 201, "\(String(decoding: answer.body, as: UTF8.self))")
        try await registration.terminate()
    }
}
