import ApusCore
import ApusMessages
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
    ) throws -> DryRunReport.Rendering {
        DryRunReport.Rendering(
            route: Route(app: try AppID("shop"), provider: provider, environment: .production),
            locale: "",
            headers: [.init(name: "apns-push-type", value: "alert")],
            payload: payload,
            payloadBytes: bytes,
            payloadBytesMax: 4_096,
        )
    }

    private static func codes(
        _ renderings: [DryRunReport.Rendering] = [],
        _ change: (inout Notification) -> Void = { _ in },
    ) -> [String] {
        DryRunLints.all(Self.notification(change), renderings).map { "\($0.code) \($0.field)" }
    }

    @Test func `A plain alert gets no advice`() throws {
        #expect(Self.codes([try Self.rendering(.apns), try Self.rendering(.fcm)]) == [])
    }

    @Test func `Words that are cut off are told, in every language`() {
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

    @Test func `Priority, expiry and kind that do not do what they seem to are told`() throws {
        #expect(Self.codes { $0.priority = .high } == [])
        #expect(Self.codes { $0.priority = .normal } == ["priority notification.priority"])
        #expect(Self.codes { $0.expiry = .ttl(milliseconds: 0) } == ["one_attempt notification.ttl_ms"])
        #expect(Self.codes { $0.expiry = .ttl(milliseconds: 1) } == [])
        #expect(Self.codes { $0.title = "" } == ["nothing_shown notification.kind"])
        let waking = try Self.rendering(.apns, payload: "{\"aps\":{\"content-available\":1}}")
        #expect(Self.codes([waking]) == ["push_type notification.kind"])
    }

    @Test func `Who begins when everybody does is told, where Google asks not to`() throws {
        func codes(_ seconds: Int64, _ provider: Provider) throws -> [String] {
            // A quarter of an hour: 1,700,000,100 is a multiple of 900.
            let time = UnixMilliseconds(seconds: 1_700_000_100 + seconds)
            return DryRunLints.all(Self.notification(), [try Self.rendering(provider)], notBefore: time).map(\.code)
        }
        for seconds in [-120, -1, 0, 1, 120] as [Int64] {
            #expect(try codes(seconds, .fcm) == ["busy_minutes"])
            #expect(try codes(seconds, .apns) == [])
        }
        for seconds in [-121, 121, 450] as [Int64] { #expect(try codes(seconds, .fcm) == []) }
    }

    @Test func `D82 Collapse keys are told where FCM limits them, sizes where they nearly break a limit`() throws {
        let apple = try Self.rendering(.apns)
        let google = try Self.rendering(.fcm)
        #expect(Self.codes([apple]) { $0.collapseKey = "score" } == [])
        #expect(Self.codes([apple, google]) { $0.collapseKey = "score" } == ["collapse notification.collapse_key"])
        #expect(Self.codes([try Self.rendering(.apns, bytes: 3_686)]) == [])
        #expect(Self.codes([try Self.rendering(.apns, bytes: 3_687)]) == ["nearly_too_large notification"])
    }
}
