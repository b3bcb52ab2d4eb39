import ApusBuiltInProviders
import ApusCore
import ApusMessages
import ApusProviders
import Testing

@testable import ApusDispatcher

/// Tests to which of a device's tokens a Live Activity's change goes.
@Suite struct ActivityAddressTests {
    private static let now = UnixMilliseconds(1_700_000_000_000)

    private static func command(
        _ event: Notification.LiveActivity.Event,
        activity: String = "",
        target: Target = .topic("game"),
    ) -> SendCommand {
        var notification = Notification()
        notification.kind = .liveActivity
        var change = Notification.LiveActivity(event: event)
        change.attributesType = event == .start ? "Game" : ""
        change.activityID = activity
        notification.liveActivity = change
        return SendCommand(app: "demo", target: target, notification: notification)
    }

    private static let record: DeviceRecord = {
        var record = DeviceRecord(device: "phone", token: [0xff])
        func add(_ kind: TokenKind, _ activity: String, _ token: UInt8, seconds: Int64, isSuspect: Bool = false) {
            var address = DeviceRecord.SecondaryAddress(kind: kind, token: [token])
            address.activityID = activity
            address.expiresAtSeconds = seconds
            address.isSuspect = isSuspect
            address.isOfOtherEnvironment = activity == "elsewhere"
            record.secondary.append(address)
        }
        add(.liveActivityStart, "Game", 1, seconds: 0)
        add(.liveActivityUpdate, "Game", 2, seconds: 1_700_000_001)
        add(.liveActivityUpdate, "over", 3, seconds: 1_700_000_000)
        add(.liveActivityUpdate, "odd", 4, seconds: 0, isSuspect: true)
        add(.liveActivityStart, "other", 5, seconds: 0)
        add(.liveActivityUpdate, "elsewhere", 6, seconds: 0)
        return record
    }()

    /// Returns what both the bytes and the record have; they must agree.
    private static func token(_ command: SendCommand) throws -> [UInt8]? {
        let address = try #require(ActivityAddress(command))
        let found = address.address(of: Self.record, now: Self.now)
        let bytes = try Self.record.encode()
        let read = DeviceRecordView(bytes.span)
        let view = try #require(read)
        switch address.find(in: view, bytes.span, now: Self.now) {
        case .token(let place, let isElsewhere):
            #expect(found?.token == Array(bytes[place]) && found?.isSuspect == false)
            #expect(found?.isOfOtherEnvironment == isElsewhere && isElsewhere == (found?.activityID == "elsewhere"))
            return Array(bytes[place])
        case .suspect:
            #expect(found?.isSuspect == true)
            return []
        case .none:
            #expect(found == nil)
            return nil
        }
    }

    @Test func `Starts go to the token that starts its type, changes to that of the activity`() throws {
        #expect(try Self.token(Self.command(.start)) == [1])
        #expect(try Self.token(Self.command(.start, activity: "other")) == [5])
        #expect(try Self.token(Self.command(.start, activity: "none")) == nil)
        #expect(try Self.token(Self.command(.update, activity: "Game")) == [2])
        #expect(try Self.token(Self.command(.end, activity: "Game")) == [2])
        #expect(try Self.token(Self.command(.update, activity: "elsewhere")) == [6])
        #expect(try Self.token(Self.command(.update, activity: "over")) == nil, "its time is over")
        #expect(try Self.token(Self.command(.update, activity: "odd")) == [], "it is suspect")
    }

    @Test func `A target that names a token itself needs no look-up`() {
        #expect(ActivityAddress(Self.command(.update, target: .addresses([]))) == nil)
        #expect(ActivityAddress(Self.command(.update, target: .fcmTopic("news"))) == nil)
        let alert = SendCommand(app: "demo", target: .topic("game"), notification: Notification())
        #expect(ActivityAddress(alert) == nil)
    }

    @Test(arguments: [Notification.LiveActivity.Event.update, .end])
    func `Changes for devices name their activity`(event: Notification.LiveActivity.Event) throws {
        func refusal(_ command: SendCommand) throws -> String? {
            guard
                case .refuse(_, let problem, _) = IntakeDecision(
                    message: try command.encode(),
                    now: Self.now,
                    providers: ProviderList(BuiltInProviders.all)
                )
            else { return nil }
            return "\(problem.code) \(problem.field)"
        }
        let field = "missing_value notification.live_activity.activity_id"
        #expect(try refusal(Self.command(event)) == field)
        #expect(try refusal(Self.command(event, activity: "Game")) == nil)
        #expect(try refusal(Self.command(.start)) == nil)
    }
}
