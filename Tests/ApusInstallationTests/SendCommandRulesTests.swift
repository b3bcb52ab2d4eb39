import ApusCore
import ApusInstallation
import ApusMessages
import Testing

@Suite struct SendCommandRulesTests {
    private static let now = UnixMilliseconds(1_764_072_000_000)

    private static func command(
        _ target: Target = .topic("news"),
        _ change: (inout SendCommand) -> Void = { _ in }
    ) -> SendCommand {
        var notification = Notification()
        notification.title = "Hi"
        var command = SendCommand(app: "shop", target: target, notification: notification)
        change(&command)
        return command
    }

    private static func problem(_ command: SendCommand) -> Problem? {
        do throws(Problem) {
            try SendCommandRules.check(command)
            try SendCommandRules.checkWorth(of: command, now: Self.now)
            return nil
        } catch {
            return error
        }
    }

    @Test func `A broken target is refused with the place in it`() {
        for (target, code, field) in [
            (.condition("'a' in topic"), "invalid_condition", "target.condition"),
            (.expression("shoesize > 3"), "invalid_expression", "target.expression"),
            (.topic("no spaces"), "invalid_topic", "target.topic"),
            (.users(["ada", ""]), "invalid_user", "target.users[1]"), (.devices([]), "no_recipients", "target.devices"),
        ] as [(Target, String, String)] {
            let problem = Self.problem(Self.command(target))
            #expect(problem?.code == code && problem?.field == field, "\(target)")
        }
        for target in [Target.condition("'a' in topics"), .expression("locale == 'en'"), .everyone([])] {
            #expect(Self.problem(Self.command(target)) == nil)
        }
    }

    @Test func `A send may be scheduled for a year ahead, and no millisecond more`() {
        let last = Self.now.advanced(byMilliseconds: Limits.notBeforeMilliseconds)
        #expect(Self.problem(Self.command { $0.notBefore = last }) == nil)
        let problem = Self.problem(Self.command { $0.notBefore = last.advanced(byMilliseconds: 1) })
        #expect(problem?.code == "too_late" && problem?.field == "not_before_ms")
        #expect(problem?.detail.contains("366 days") == true)
    }

    @Test func `Receipts go to streams under their prefix only`() {
        let problem = Self.problem(Self.command { $0.replyTo = "mailbox" })
        #expect(problem?.field == "reply_to" && problem?.detail.contains("apus:receipts:") == true)
        #expect(Self.problem(Self.command { $0.replyTo = "apus:receipts:shop" }) == nil)
    }

    @Test(
        arguments: [
            (1_764_072_000, "seconds: multiply it by 1000000000"),
            (1_764_072_000_123, "milliseconds: multiply it by 1000000"),
            (1_764_072_000_123_456, "microseconds: multiply it by 1000"), (5, "times of today have 19 digits"),
            (-1_764_072_000_123_456_789, "times of today have 19 digits"),
        ] as [(Int64, String)]
    )
    func `A time of publication in another unit than nanoseconds is refused as such`(value: Int64, advice: String) {
        let problem = Self.problem(Self.command { $0.publishedAtNanoseconds = value })
        #expect(problem?.code == "invalid_time" && problem?.field == "published_at_ns")
        #expect(problem?.detail.contains(advice) == true, "\(problem?.detail ?? "")")
    }

    @Test func `Plausible times are taken, others of a start and an end are refused`() {
        #expect(Self.problem(Self.command { $0.publishedAtNanoseconds = 1_764_072_000_123_456_789 }) == nil)
        #expect(Self.problem(Self.command { $0.notBefore = Self.now }) == nil)
        let start = Self.problem(Self.command { $0.notBefore = UnixMilliseconds(1_764_072_000) })
        #expect(start?.field == "not_before_ms")
        #expect(start?.detail.contains("end in 1970; it looks like seconds: multiply it by 1000") == true)
        let end = Self.problem(Self.command { $0.notification.expiry = .at(UnixMilliseconds(1_764_072_000)) })
        #expect(end?.field == "notification.expires_at_ms")
    }

    @Test func `A message that ends before it may be sent is refused`() {
        let hour: Int64 = 3_600_000
        let late = Self.problem(
            Self.command {
                $0.notification.expiry = .ttl(milliseconds: hour)
                $0.notBefore = Self.now.advanced(byMilliseconds: hour)
            }
        )
        #expect(late?.code == "expired" && late?.field == "notification.ttl_ms")
        let past = Self.problem(Self.command { $0.notification.expiry = .at(Self.now) })
        #expect(past?.field == "notification.expires_at_ms")
        #expect(past?.detail.contains("not after the publication at 2025-11-25T12:00:00Z") == true)
        let once = Self.command {
            $0.notification.expiry = .ttl(milliseconds: 0)
            $0.notBefore = Self.now.advanced(byMilliseconds: hour)
        }
        #expect(Self.problem(once) == nil)
        let call = Self.command { $0.notification.kind = .voip }
        #expect(Self.problem(call) == nil)
        var over = call
        over.publishedAtNanoseconds = (Self.now.value - 60_000) * 1_000_000
        let ended = Self.problem(over)
        #expect(ended?.code == "expired" && ended?.field == "published_at_ns")
    }

    @Test func `An app that no dispatcher has is refused once any is known, with the name that was probably meant`()
        throws
    {
        func detail(_ app: String, _ known: Set<String>) -> String? {
            do throws(Problem) {
                try SendCommandRules.checkApp(app, among: known)
                return nil
            } catch {
                #expect(error.code == "unknown_app" && error.field == "app")
                return error.detail
            }
        }
        #expect(detail("shop", []) == nil)
        #expect(detail("shop", ["shop", "news"]) == nil)
        #expect(detail("shpo", ["shop", "news"]) == "there is no app shpo; did you mean shop? The apps are news, shop")
        #expect(detail("weather", ["shop"]) == "there is no app weather. The apps are shop")
    }
}
