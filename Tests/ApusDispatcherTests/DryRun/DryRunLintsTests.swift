import ApusAPNs
import ApusBuiltInProviders
import ApusCore
import ApusMessages
import ApusProviders
import Testing

@testable import ApusDispatcher

@Suite struct DryRunLintsTests {
    private static func notification(_ change: (inout Notification) -> Void = { _ in }) -> Notification {
        var notification = Notification()
        notification.title = "Swifts are back"
        change(&notification)
        return notification
    }

    private static func rendering(
        _ provider: Provider,
        payload: String = "{\"aps\":{\"alert\":\"Hi\"}}",
        bytes: Int = 100,
    ) throws -> RouteRendering {
        RouteRendering(
            route: Route(app: try AppID("shop"), provider: provider, environment: .production),
            locale: "",
            headers: [.init(name: "apns-push-type", value: "alert")],
            payload: payload,
            payloadBytes: bytes,
            payloadBytesMax: 4_096,
        )
    }

    private static func codes(
        _ renderings: [RouteRendering] = [],
        target: Target = .topic("news"),
        recipients: UInt64 = 0,
        notBefore: UnixMilliseconds? = nil,
        now: UnixMilliseconds = Self.quietTime,
        _ change: (inout Notification) -> Void = { _ in },
    ) -> [String] {
        var command = SendCommand(app: "shop", target: target, notification: Self.notification(change))
        command.notBefore = notBefore
        var report = DryRunReport()
        report.renderings = renderings
        report.audiences = renderings.map { DryRunReport.Audience(route: $0.route, recipients: recipients) }
        return DryRunLints.all(command, report, ProviderList(BuiltInProviders.all), now: now).map {
            "\($0.code) \($0.field)"
        }
    }

    /// A quarter of an hour: 1,700,000,100 is a multiple of 900.
    private static let quarter: Int64 = 1_700_000_100
    private static let quietTime = UnixMilliseconds(seconds: Self.quarter - 450)

    @Test func `A plain alert gets no advice`() throws {
        #expect(Self.codes([try Self.rendering(.apns), try Self.rendering(.fcm)]) == [])
    }

    @Test func `Truncated texts are reported in every language`() {
        let title = "truncated notification.title"
        #expect(Self.codes { $0.title = String(repeating: "ä", count: 50) } == [])
        #expect(Self.codes { $0.title = String(repeating: "ä", count: 51) } == [title])
        #expect(Self.codes { $0.body = String(repeating: "x", count: 178) } == [])
        #expect(Self.codes { $0.body = String(repeating: "x", count: 179) } == ["truncated notification.body"])
        let german = "truncated notification.variants[0].title"
        let codes = Self.codes { notification in
            var variant = Notification.LocaleVariant(locale: "de")
            variant.title = String(repeating: "x", count: 51)
            notification.variants = [variant]
        }
        #expect(codes == [german])
    }

    @Test func `Misleading priorities, expiries and kinds are reported`() throws {
        #expect(Self.codes { $0.priority = .high } == [])
        #expect(Self.codes { $0.priority = .normal } == ["priority notification.priority"])
        #expect(Self.codes { $0.expiry = .ttl(milliseconds: 0) } == ["one_attempt notification.ttl_ms"])
        #expect(Self.codes { $0.expiry = .ttl(milliseconds: 1) } == [])
        #expect(Self.codes { $0.title = "" } == ["nothing_shown notification.kind"])
        let waking = try Self.rendering(.apns, payload: "{\"aps\":{\"content-available\":1}}")
        #expect(Self.codes([waking]) == ["push_type notification.kind"])
    }

    @Test func `A send at the full hour is reported where Google advises against it`() throws {
        let busy = ["busy_minutes not_before_ms"]
        let (google, apple) = (try Self.rendering(.fcm), try Self.rendering(.apns))
        func time(_ seconds: Int64) -> UnixMilliseconds { UnixMilliseconds(seconds: Self.quarter + seconds) }
        for seconds in [-120, -1, 0, 1, 120] as [Int64] {
            #expect(Self.codes([google], notBefore: time(seconds)) == busy)
            #expect(Self.codes([apple], notBefore: time(seconds)) == [])
            // At once, which matters for many only.
            #expect(Self.codes([google], recipients: 10_000, now: time(seconds)) == busy)
            #expect(Self.codes([google], recipients: 9_999, now: time(seconds)) == [])
            #expect(Self.codes([apple], recipients: 10_000, now: time(seconds)) == [])
        }
        for seconds in [-121, 121, 450] as [Int64] {
            #expect(Self.codes([google], notBefore: time(seconds)) == [])
            #expect(Self.codes([google], recipients: 10_000, now: time(seconds)) == [])
        }
        // A time that has passed is now.
        #expect(Self.codes([google], notBefore: time(0), now: time(300)) == [])
    }

    @Test func `The advice for a background push says how seldom it may arrive, through FCM too`() throws {
        let (google, apple) = (try Self.rendering(.fcm), try Self.rendering(.apns, payload: "{}"))
        for renderings in [[google], [apple], [apple, google]] {
            #expect(Self.codes(renderings) { $0.kind = .background } == ["background notification.kind"])
        }
        let style = "background notification.fcm_apns_style"
        #expect(Self.codes([google]) { $0.fcmAPNsStyle = .data } == [style])
        #expect(Self.codes([apple]) { $0.fcmAPNsStyle = .data } == [])
        #expect(Self.codes([]) { $0.kind = .background } == [])
    }

    @Test func `The advice for an audience held by FCM says that it is one message without outcomes per device`() throws
    {
        let google = try Self.rendering(.fcm)
        #expect(Self.codes([google], target: .fcmTopic("news")) == ["held_by_fcm target.fcm_topic"])
        let condition = Target.fcmCondition("'a' in topics")
        #expect(Self.codes([google], target: condition) == ["held_by_fcm target.fcm_condition"])
        #expect(Self.codes([google], target: .condition("'a' in topics")) == [])
        // Nobody knows how many recipients it reaches: the busy minutes may be theirs.
        let codes = Self.codes([google], target: condition, now: UnixMilliseconds(seconds: Self.quarter))
        #expect(codes == ["held_by_fcm target.fcm_condition", "busy_minutes not_before_ms"])
    }

    @Test func `D82 Collapse keys are reported where FCM limits them, and sizes near a limit`() throws {
        let apple = try Self.rendering(.apns)
        let google = try Self.rendering(.fcm)
        #expect(Self.codes([apple]) { $0.collapseKey = "score" } == [])
        #expect(Self.codes([apple, google]) { $0.collapseKey = "score" } == ["collapse notification.collapse_key"])
        #expect(Self.codes([try Self.rendering(.apns, bytes: 3_686)]) == [])
        #expect(Self.codes([try Self.rendering(.apns, bytes: 3_687)]) == ["nearly_too_large notification"])
    }
}
