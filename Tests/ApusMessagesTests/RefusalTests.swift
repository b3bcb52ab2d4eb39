import ApusCore
import ApusMessages
import Testing

/// Bytes that are refused, why, and where.
struct Refusal: Sendable, CustomTestStringConvertible {
    let name: String
    let decode: @Sendable () throws(MessageError) -> Void
    let code: MessageError.Code
    let field: String

    init<M: Message>(
        _ name: String,
        _ type: M.Type,
        _ bytes: [UInt8],
        _ code: MessageError.Code,
        _ field: String = "",
    ) {
        self.name = name
        self.decode = { () throws(MessageError) in _ = try M.decode(bytes) }
        self.code = code
        self.field = field
    }

    var testDescription: String { self.name }

    func check() {
        let error = #expect(throws: MessageError.self) { try self.decode() }
        #expect(error?.code == self.code)
        #expect(error?.field == self.field)
    }
}

@Suite struct RefusalTests {
    @Test func theLeastOfEachMessageIsEnough() throws {
        _ = try SendCommand.decode(Least.command)
        _ = try DeviceRegistration.decode(Least.device)
        _ = try DeviceRecord.decode(Least.record)
        _ = try OutcomeBatch.decode(Least.batch)
        _ = try WorkUnit.decode(Least.unit)
        _ = try SendReceipt.decode(Least.receipt)
        _ = try ClientEvent.decode(Least.event)
        _ = try DeadLetter.decode(Least.letter)
        _ = try RegistrationCommand.decode(Least.app + Wire.nested([4], Least.device))
    }

    @Test func absentValuesAreTheDocumentedOnes() throws {
        let command = try SendCommand.decode(Least.command)
        #expect(command == SendCommand(app: "a", target: .topic("t"), notification: Notification()))
        let record = try DeviceRecord.decode(Least.record)
        #expect(record == DeviceRecord(device: "d", token: [0]))
        let unit = try WorkUnit.decode(Least.unit)
        #expect(unit == WorkUnit(send: SendKey(app: "a", id: "s"), route: RouteNumber(1), recipients: .addresses([0])))
    }

    @Test(arguments: [
        Refusal("nothing", SendCommand.self, [], .missing, "target"),
        Refusal("no app", SendCommand.self, Least.topic + Wire.bytes(4, []), .missing, "app"),
        Refusal("no target", SendCommand.self, Least.app + Wire.bytes(4, []), .missing, "target"),
        Refusal("no audience", SendCommand.self, Least.app + Wire.bytes(3, []) + Wire.bytes(4, []), .missing, "target"),
        Refusal("no notification", SendCommand.self, Least.app + Least.topic, .missing, "notification"),
        Refusal(
            "no addresses",
            SendCommand.self,
            Self.command(target: Wire.bytes(1, [])),
            .missing,
            "target.addresses"
        ),
        Refusal("no devices", SendCommand.self, Self.command(target: Wire.bytes(2, [])), .missing, "target.devices"),
        Refusal("no users", SendCommand.self, Self.command(target: Wire.bytes(3, [])), .missing, "target.users"),
        Refusal(
            "an empty user",
            SendCommand.self,
            Self.command(target: Wire.nested([3], Wire.text(1, "u") + Wire.text(1, ""))),
            .missing,
            "target.users.ids[1]"
        ),
        Refusal("an empty topic", SendCommand.self, Self.command(target: Wire.text(4, "")), .missing, "target.topic"),
        Refusal(
            "an empty condition",
            SendCommand.self,
            Self.command(target: Wire.text(5, "")),
            .missing,
            "target.condition"
        ),
        Refusal(
            "an empty expression",
            SendCommand.self,
            Self.command(target: Wire.text(6, "")),
            .missing,
            "target.expression"
        ),
        Refusal(
            "an empty FCM topic",
            SendCommand.self,
            Self.command(target: Wire.text(8, "")),
            .missing,
            "target.fcm_topic"
        ),
        Refusal(
            "an empty FCM condition",
            SendCommand.self,
            Self.command(target: Wire.text(9, "")),
            .missing,
            "target.fcm_condition"
        ),
        Refusal(
            "no channel",
            SendCommand.self,
            Self.command(target: Wire.bytes(10, [])),
            .missing,
            "target.apns_channel.channel_id"
        ),
        Refusal(
            "an address of nobody",
            SendCommand.self,
            Self.command(target: Wire.nested([1, 1], Wire.text(2, "00"))),
            .missing,
            "target.addresses.addresses[0].provider"
        ),
        Refusal(
            "an address without a token",
            SendCommand.self,
            Self.command(target: Wire.nested([1, 1], Wire.number(1, 1))),
            .missing,
            "target.addresses.addresses[0].token"
        ),
        Refusal(
            "a variant of no locale",
            SendCommand.self,
            Self.command(notification: Wire.bytes(34, [])),
            .missing,
            "notification.variants[0].locale"
        ),
        Refusal(
            "a Live Activity to which nothing happens",
            SendCommand.self,
            Self.command(notification: Wire.bytes(33, [])),
            .missing,
            "notification.live_activity.event"
        ),
        Refusal(
            "data without a key",
            SendCommand.self,
            Self.command(notification: Wire.nested([22], Wire.text(2, "v"))),
            .missing,
            "notification.data[0].key"
        ),
        Refusal("no device", DeviceRecord.self, Wire.bytes(1, [0]), .missing, "device"),
        Refusal("no token", DeviceRecord.self, Wire.text(8, "d"), .missing, "token"),
        Refusal(
            "a secondary address of no kind",
            DeviceRecord.self,
            Least.record + Wire.nested([12], Wire.bytes(2, [0])),
            .missing,
            "secondary[0].kind"
        ),
        Refusal(
            "a secondary address without a token",
            DeviceRecord.self,
            Least.record + Wire.nested([12], Wire.number(1, 3)),
            .missing,
            "secondary[0].token"
        ),
        Refusal(
            "a suspicion of nothing",
            DeviceRecord.self,
            Least.record + Wire.bytes(11, []),
            .missing,
            "suspicion.reason"
        ),
        Refusal(
            "an empty tag",
            DeviceRecord.self,
            Least.record + Wire.nested([6], Wire.text(5, "")),
            .missing,
            "attributes.tags[0]"
        ),
        Refusal("no provider", DeviceRegistration.self, Wire.text(1, "d") + Wire.text(3, "00"), .missing, "provider"),
        Refusal("no action", RegistrationCommand.self, Least.app, .missing, "action"),
        Refusal(
            "no topics",
            RegistrationCommand.self,
            Least.app + Wire.nested([6], Wire.text(1, "d")),
            .missing,
            "subscribe.topics"
        ),
        Refusal("no user", RegistrationCommand.self, Least.app + Wire.bytes(11, []), .missing, "delete_user.user"),
        Refusal("no send", WorkUnit.self, Wire.number(2, 1), .missing, "send"),
        Refusal("an id without its app", WorkUnit.self, Wire.text(1, "s") + Wire.number(2, 1), .malformed, "send"),
        Refusal("no recipients", WorkUnit.self, Least.unitHead + Wire.number(4, 1), .missing, "recipients"),
        Refusal("no segments", WorkUnit.self, Least.unitHead + Wire.bytes(8, []), .missing, "segments"),
        Refusal("no references", WorkUnit.self, Least.unitHead + Wire.bytes(9, []), .missing, "references"),
        Refusal("no indices", WorkUnit.self, Least.unitHead + Wire.bytes(10, []), .missing, "addresses"),
        Refusal(
            "an empty segment",
            WorkUnit.self,
            Least.unitHead + Wire.nested([8, 1], []),
            .missing,
            "segments.segments[0].ordinals"
        ),
        Refusal(
            "no route",
            WorkUnit.self,
            Wire.text(1, "a/s") + Wire.number(5, 1) + Wire.number(4, 1) + Wire.nested([10], Wire.bytes(1, [0])),
            .missing,
            "route"
        ),
        Refusal(
            "a verdict about nobody",
            OutcomeBatch.self,
            Least.batch + Wire.bytes(9, []),
            .missing,
            "unregistered[0].place"
        ),
        Refusal(
            "an outcome of nobody",
            OutcomeBatch.self,
            Least.batch + Wire.bytes(11, []),
            .missing,
            "recipients[0].place"
        ),
        Refusal(
            "a count of nothing",
            OutcomeBatch.self,
            Least.batch + Wire.bytes(8, []),
            .missing,
            "counts[0].provider"
        ),
        Refusal("a receipt of no kind", SendReceipt.self, Wire.text(1, "r"), .missing, "kind"),
        Refusal("an event of no kind", ClientEvent.self, Wire.text(1, "e"), .missing, "kind"),
        Refusal("a letter without a reason", DeadLetter.self, Wire.text(1, "q"), .missing, "reason"),
    ])
    func missing(_ refusal: Refusal) { refusal.check() }

    @Test(arguments: [
        Refusal(
            "provider",
            DeviceRegistration.self,
            Wire.text(1, "d") + Wire.number(2, 256),
            .unknownValue,
            "provider"
        ),
        Refusal(
            "a provider that would be one in 8 bits",
            OutcomeBatch.self,
            Wire.number(4, 257),
            .unknownValue,
            "provider"
        ),
        Refusal("environment", DeviceRegistration.self, Least.device + Wire.number(4, 3), .unknownValue, "environment"),
        Refusal("token kind", DeviceRegistration.self, Least.device + Wire.number(5, 9), .unknownValue, "token_kind"),
        Refusal("lane", WorkUnit.self, Least.unit + Wire.number(3, 3), .unknownValue, "lane"),
        Refusal(
            "outcome",
            OutcomeBatch.self,
            Least.batch + Wire.nested([8], Wire.number(1, 1) + Wire.number(2, 9)),
            .unknownValue,
            "counts[0].outcome"
        ),
        Refusal(
            "reason",
            DeviceRecord.self,
            Least.record + Wire.nested([11], Wire.number(2, 22)),
            .unknownValue,
            "suspicion.reason"
        ),
        Refusal(
            "kind",
            SendCommand.self,
            Self.command(notification: Wire.number(1, 12)),
            .unknownValue,
            "notification.kind"
        ),
        Refusal(
            "priority",
            SendCommand.self,
            Self.command(notification: Wire.number(23, 4)),
            .unknownValue,
            "notification.priority"
        ),
        Refusal(
            "interruption level",
            SendCommand.self,
            Self.command(notification: Wire.number(29, 5)),
            .unknownValue,
            "notification.interruption_level"
        ),
        Refusal(
            "style",
            SendCommand.self,
            Self.command(notification: Wire.number(39, 3)),
            .unknownValue,
            "notification.fcm_apns_style"
        ),
        Refusal(
            "Live Activity event",
            SendCommand.self,
            Self.command(notification: Wire.nested([33], Wire.number(1, 4))),
            .unknownValue,
            "notification.live_activity.event"
        ),
        Refusal(
            "a provider of everyone",
            SendCommand.self,
            Self.command(target: Wire.nested([7], Wire.bytes(1, [1, 0x80, 0x02]))),
            .unknownValue,
            "target.everyone.providers[1]"
        ),
        Refusal("receipt level", SendCommand.self, Least.command + Wire.number(9, 4), .unknownValue, "receipt_level"),
        Refusal("delivery", SendCommand.self, Least.command + Wire.number(11, 3), .unknownValue, "delivery"),
        Refusal("detail", OutcomeBatch.self, Least.batch + Wire.number(16, 4), .unknownValue, "detail"),
        Refusal("receipt kind", SendReceipt.self, Wire.number(4, 6), .unknownValue, "kind"),
        Refusal("event kind", ClientEvent.self, Wire.number(5, 5), .unknownValue, "kind"),
        Refusal("dead reason", DeadLetter.self, Wire.number(3, 5), .unknownValue, "reason"),
    ])
    func unknownValues(_ refusal: Refusal) { refusal.check() }

    @Test(arguments: [
        Refusal(
            "more recipients than said",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 1) + Wire.nested([10], Wire.bytes(1, [0, 1])),
            .malformed,
            "count"
        ),
        Refusal(
            "half an ordinal",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 1) + Wire.nested([8, 1], Wire.bytes(3, [0, 1, 2])),
            .malformed,
            "segments.segments[0].ordinals"
        ),
        Refusal(
            "ordinals that descend",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 2) + Wire.nested([8, 1], Wire.bytes(3, [0, 2, 0, 1])),
            .malformed,
            "segments.segments[0].ordinals"
        ),
        Refusal(
            "an ordinal twice",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 2) + Wire.nested([8, 1], Wire.bytes(3, [0, 2, 0, 2])),
            .malformed,
            "segments.segments[0].ordinals"
        ),
        Refusal(
            "an ordinal beyond its chunk",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 1) + Wire.nested([8, 1], Wire.bytes(3, [0x10, 0])),
            .malformed,
            "segments.segments[0].ordinals"
        ),
        Refusal(
            "a chunk beyond all ordinals",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 1)
                + Wire.nested([8, 1], Wire.number(2, 1 << 20) + Wire.bytes(3, [0, 0])),
            .malformed,
            "segments.segments[0].chunk"
        ),
        Refusal(
            "references of unequal parts",
            WorkUnit.self,
            Least.unitHead + Wire.number(4, 1) + Wire.nested([9], Wire.bytes(1, [0]) + Wire.bytes(2, [0])),
            .malformed,
            "references"
        ),
        Refusal(
            "a place in the store and in the command",
            OutcomeBatch.self,
            Least.batch + Wire.nested([9, 1], Wire.number(1, 1) + Wire.number(4, 1)),
            .malformed,
            "unregistered[0].place.address"
        ),
        Refusal("topics that descend", DeviceRecord.self, Least.record + Wire.bytes(5, [2, 1]), .malformed, "topics"),
        Refusal("a topic twice", DeviceRecord.self, Least.record + Wire.bytes(5, [2, 2]), .malformed, "topics"),
        Refusal(
            "a short Web Push key",
            DeviceRecord.self,
            Least.record + Wire.bytes(9, [4]),
            .malformed,
            "webpush_p256dh"
        ),
        Refusal(
            "a long Web Push secret",
            DeviceRecord.self,
            Least.record + Wire.bytes(10, Array(repeating: 0, count: 17)),
            .malformed,
            "webpush_auth"
        ),
        Refusal(
            "a short key of the app's server",
            DeviceRecord.self,
            Least.record + Wire.bytes(17, [4]),
            .malformed,
            "application_server_key"
        ),
        Refusal(
            "an end before 1970",
            DeviceRecord.self,
            Least.record + Wire.number(18, UInt64(bitPattern: -1)),
            .malformed,
            "expires_at_s"
        ),
        Refusal(
            "a change before 1970",
            DeviceRecord.self,
            Least.record + Wire.number(19, UInt64(bitPattern: -1)),
            .malformed,
            "changed_at_ms"
        ),
        Refusal(
            "topics without the word to set them",
            DeviceRegistration.self,
            Least.device + Wire.text(8, "news"),
            .malformed,
            "topics"
        ),
        Refusal(
            "a key of data twice",
            SendCommand.self,
            Self.command(
                notification: Wire.nested([22], Wire.text(1, "k")) + Wire.nested([22], Wire.text(1, "k"))
            ),
            .malformed,
            "notification.data[1].key"
        ),
        Refusal(
            "a volume above one",
            SendCommand.self,
            Self.command(notification: Wire.nested([13], Wire.fixed64(3, (1.5).bitPattern))),
            .malformed,
            "notification.sound.volume"
        ),
        Refusal(
            "a volume that is no number",
            SendCommand.self,
            Self.command(notification: Wire.nested([13], Wire.fixed64(3, Double.nan.bitPattern))),
            .malformed,
            "notification.sound.volume"
        ),
        Refusal(
            "a score that is no number",
            SendCommand.self,
            Self.command(notification: Wire.fixed64(30, Double.infinity.bitPattern)),
            .malformed,
            "notification.relevance_score"
        ),
        Refusal(
            "a time before 1970",
            SendCommand.self,
            Least.command + Wire.number(7, UInt64(bitPattern: -1)),
            .malformed,
            "not_before_ms"
        ),
        Refusal(
            "a time after 9999",
            SendCommand.self,
            Least.command + Wire.number(7, 253_402_300_800_000),
            .malformed,
            "not_before_ms"
        ),
        Refusal(
            "nanoseconds before 1970",
            SendCommand.self,
            Least.command + Wire.number(6, UInt64(bitPattern: -1)),
            .malformed,
            "published_at_ns"
        ),
        Refusal(
            "a negative time to live",
            SendCommand.self,
            Self.command(notification: Wire.number(25, UInt64(bitPattern: -1))),
            .malformed,
            "notification.ttl_ms"
        ),
        Refusal(
            "an expiry of the secondary address before 1970",
            DeviceRecord.self,
            Least.record
                + Wire.nested([12], Wire.number(1, 3) + Wire.bytes(2, [0]) + Wire.number(4, UInt64(bitPattern: -1))),
            .malformed,
            "secondary[0].expires_at_s"
        ),
    ])
    func contradictions(_ refusal: Refusal) { refusal.check() }

    /// protobuf takes the last of a `oneof`, and protobuf-c does not tell that there were others.
    @Test(arguments: [
        Refusal(
            "a token and a topic",
            SendCommand.self,
            Self.command(target: Wire.nested([1, 1], Wire.number(1, 2) + Wire.text(2, "t")) + Wire.text(8, "t")),
            .malformed,
            "target.fcm_topic"
        ),
        Refusal(
            "a topic and users",
            SendCommand.self,
            Self.command(target: Wire.text(4, "t") + Wire.nested([3, 1], Array("u".utf8))),
            .malformed,
            "target.users"
        ),
        Refusal(
            "two topics",
            SendCommand.self,
            Self.command(target: Wire.text(4, "t") + Wire.text(4, "u")),
            .malformed,
            "target.topic"
        ),
        Refusal(
            "two targets",
            SendCommand.self,
            Least.app + Least.topic + Least.topic + Wire.bytes(4, []),
            .malformed,
            "target"
        ),
        Refusal("no target", SendCommand.self, Least.app + Wire.bytes(4, []), .missing, "target"),
        Refusal("a target that is not set", SendCommand.self, Self.command(target: []), .missing, "target"),
        Refusal(
            "a target of a later version",
            SendCommand.self,
            Self.command(target: Wire.text(12, "t")),
            .missing,
            "target"
        ),
    ])
    func `D72 Two targets on the wire, and none, are refused`(_ refusal: Refusal) { refusal.check() }

    @Test func `D72 The refusal of a second target names both`() {
        let bytes = Self.command(target: Wire.text(4, "t") + Wire.text(8, "u"))
        let error = #expect(throws: MessageError.self) { _ = try SendCommand.decode(bytes) }
        #expect(error?.detail == "must not be given beside topic")
    }

    static func command(target: [UInt8]) -> [UInt8] { Least.app + Wire.bytes(3, target) + Wire.bytes(4, []) }

    static func command(notification: [UInt8]) -> [UInt8] {
        Least.app + Least.topic + Wire.bytes(4, notification)
    }
}
