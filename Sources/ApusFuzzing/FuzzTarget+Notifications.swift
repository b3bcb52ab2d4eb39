internal import ApusAPNs
internal import ApusCore
internal import ApusFCM
internal import ApusHTTP2
internal import ApusInstallation
internal import ApusMessages
internal import ApusProviders
internal import ApusWebPush

/// The targets for notifications in commands, and for their raw JSON for providers.
extension FuzzTarget {
    private static let payloadWords =
        Self.jsonWords + [
            "\"aps\":", "\"alert\":", "\"badge\":", "\"sound\":", "\"notification\":", "\"data\":", "\"headers\":",
            "\"payload\":",
            "\"token\":", "\"content-available\":1", "\"event\":\"update\"", "\"timestamp\":1", "\"mutable-content\":1",
            "\"ttl\":\"1s\"",
            "\"fcm_options\":", "\"priority\":\"high\"", "\"apns-priority\":\"5\"", "\"live_activity_token\":",
        ]

    static let notifications = [
        FuzzTarget(
            "command-rendering",
            words: Self.payloadWords,
            seeds: SampleMessages.commands.map { (try? $0.encode()) ?? [] }
        ) { input in
            guard let command = try? SendCommand.decode(input) else { return }
            _ = try? SendCommandRules.check(command)
            try Self.render(command.notification)
        },
        FuzzTarget(
            "payload-overrides",
            words: Self.payloadWords,
            seeds: [
                [0, 0] + #"{"aps":{"alert":{"title":"x"},"badge":5},"k":[1]}"#.bytes,
                [0, 1] + #"{"ttl":"60s","priority":"high","notification":{"tag":"t"},"data":{"a":"b"}}"#.bytes,
                [0, 2] + #"{"headers":{"Urgency":"high"},"notification":{"title":"t"}}"#.bytes,
                [0, 3] + #"{"headers":{"apns-priority":"5"},"payload":{"aps":{"badge":1}}}"#.bytes,
                [8, 4] + #"{"score":3}"#.bytes,
                [8, 0] + #"{"aps":{"event":"update","content-state":{},"timestamp":1}}"#.bytes,
                [1, 0] + #"{"aps":{"content-available":1}}"#.bytes,
            ]
        ) { input in
            var input = input
            let kinds = Notification.Kind.allCases
            var notification = Notification()
            notification.kind = kinds[Int(input.takeFirst()) % kinds.count]
            if notification.kind == .alert { notification.body = "Hello" }
            let place = input.takeFirst()
            notification.badge = place & 8 == 0 ? nil : .increment(1)
            guard let text = input.validText else { return }
            switch place & 7 {
            case 0: notification.apnsJSON = text
            case 1: notification.androidJSON = text
            case 2: notification.webpushJSON = text
            case 3: notification.fcmAPNsJSON = text
            case 4:
                var activity = Notification.LiveActivity(event: .update)
                activity.contentStateJSON = text
                notification.liveActivity = activity
            case 5: notification.title = text
            case 6: notification.data = ["k": text, text: "v"]
            default: notification.collapseKey = text
            }
            try Self.render(notification)
        },
    ]

    /// Renders a notification for every provider; every body must be one JSON object and every header one line.
    private static func render(_ notification: Notification) throws {
        let context = RenderContext(
            send: try SendID("send-1"),
            publishedAt: UnixMilliseconds(seconds: 1_700_000_000),
            now: UnixMilliseconds(1_700_000_000_500),
        )
        func check(_ body: RenderedBody, _ headers: [(name: String, value: String)]) throws {
            let bytes = body.bytes(token: "TOKEN", badge: .max)
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: bytes, bytesMax: 64 * 1_024, depthMax: Limits.jsonDepthMax + 8)
            } catch {
                throw FuzzFailure("a body is no JSON: \(error): \(String(decoding: bytes, as: UTF8.self))")
            }
            try require(value.object != nil, "a body is no object")
            for header in headers {
                do throws(HTTP2Error) {
                    _ = try HeaderField(header.name, header.value)
                } catch {
                    throw FuzzFailure("the header \(header.name) is not allowed: \(error)")
                }
            }
        }
        if let messages = try? APNsRenderer(bundleID: "com.example.app").render(notification, context: context) {
            for message in messages.variants { try check(message.body, message.headers) }
        }
        for target in [FCMTarget.token, try .topic(parsing: "news")] {
            guard let messages = try? FCMRenderer.render(notification, target: target, context: context) else {
                continue
            }
            for message in messages.variants { try check(message.body, RenderedFCMMessage.headers) }
        }
        for isDeclarative in [false, true] {
            let renderer = WebPushRenderer(isDeclarative: isDeclarative)
            guard let messages = try? renderer.render(notification, context: context) else { continue }
            for message in messages.variants { try check(message.body, message.headers) }
        }
    }
}
