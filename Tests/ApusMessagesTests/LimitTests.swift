import ApusCore
import ApusMessages
import Testing

/// One limit: what is still taken, and the path of what is refused one past it.
struct Limit: Sendable, CustomTestStringConvertible {
    let field: String
    let max: Int
    /// Decodes wire bytes with that many, and encodes what came out.
    let pass: @Sendable (Int) throws(MessageError) -> Void

    /// A text or bytes of `max` bytes at that path of field numbers, beside the least that the message needs.
    static func bytes<M: Message>(
        _ type: M.Type,
        _ head: [UInt8],
        _ path: [UInt64],
        beside: [UInt8] = [],
        max: Int,
        _ field: String,
    ) -> Limit {
        Limit(field: field, max: max) { count throws(MessageError) in
            let value = beside + Wire.bytes(path[path.count - 1], Array(repeating: 0x61, count: count))
            _ = try M.decode(head + Wire.nested(Array(path.dropLast()), value)).encode()
        }
    }

    /// `max` times the same field at that path.
    static func count<M: Message>(
        _ type: M.Type,
        _ head: [UInt8],
        _ path: [UInt64],
        _ element: [UInt8],
        max: Int,
        _ field: String,
    ) -> Limit {
        Self.numbered(type, head, path, { _ in element }, max: max, field)
    }

    /// `max` fields, each other than the ones before.
    static func numbered<M: Message>(
        _ type: M.Type,
        _ head: [UInt8],
        _ path: [UInt64],
        _ element: @escaping @Sendable (Int) -> [UInt8],
        max: Int,
        _ field: String,
    ) -> Limit {
        Limit(field: field, max: max) { count throws(MessageError) in
            let value = Array((0..<count).map { Wire.bytes(path[path.count - 1], element($0)) }.joined())
            _ = try M.decode(head + Wire.nested(Array(path.dropLast()), value)).encode()
        }
    }

    var testDescription: String { self.field }
}

@Suite struct LimitTests {
    private static let short = Limits.nameBytesMax

    static let sends: [Limit] = [
        .bytes(SendCommand.self, Least.command, [1], max: Limits.sendIDBytesMax, "id"),
        .bytes(SendCommand.self, Least.topic + Wire.bytes(4, []), [2], max: Limits.appIDBytesMax, "app"),
        .bytes(SendCommand.self, Least.command, [5], max: Limits.idempotencyKeyBytesMax, "idempotency_key"),
        .bytes(SendCommand.self, Least.command, [8], max: Limits.replyToBytesMax, "reply_to"),
        .bytes(SendCommand.self, Least.command, [13], max: Limits.traceparentBytesMax, "traceparent"),
        .bytes(SendCommand.self, Least.command, [14], max: Limits.tracestateBytesMax, "tracestate"),
        Self.target([1], Wire.number(1, 1) + Wire.text(2, "00"), max: Limits.recipientsMax, "addresses.addresses"),
        Self.target([2], Array("d".utf8), max: Limits.recipientsMax, "devices.ids"),
        Self.target([3], Array("u".utf8), max: Limits.recipientsMax, "users.ids"),
        Self.targetBytes([2, 1], max: Limits.deviceIDBytesMax, "devices.ids[0]"),
        Self.targetBytes([3, 1], max: Limits.userIDBytesMax, "users.ids[0]"),
        Self.targetBytes([4], max: Limits.topicTextBytesMax, "topic"),
        Self.targetBytes([5], max: Limits.expressionBytesMax, "condition"),
        Self.targetBytes([6], max: Limits.expressionBytesMax, "expression"),
        Self.targetBytes([8], max: Limits.topicTextBytesMax, "fcm_topic"),
        Self.targetBytes([9], max: Limits.expressionBytesMax, "fcm_condition"),
        Self.targetBytes([10, 1], max: Self.short, "apns_channel.channel_id"),
        Limit(field: "target.everyone.providers", max: 3) { count throws(MessageError) in
            let providers = Wire.nested([7], Wire.bytes(1, Array(repeating: 1, count: count)))
            _ = try SendCommand.decode(RefusalTests.command(target: providers)).encode()
        },
        .bytes(
            SendCommand.self,
            Least.app + Wire.bytes(4, []),
            [3, 1, 1, 2],
            beside: Wire.number(1, 1),
            max: Limits.tokenBytesMax,
            "target.addresses.addresses[0].token"
        ),
        .bytes(
            SendCommand.self,
            Least.app + Wire.bytes(4, []),
            [3, 1, 1, 7],
            beside: Wire.number(1, 1) + Wire.text(2, "0"),
            max: Limits.localeBytesMax,
            "target.addresses.addresses[0].locale"
        ),
    ]

    static let notifications: [Limit] = [
        Self.notification([2], max: Limits.textBytesMax, "title"),
        Self.notification([3], max: Limits.textBytesMax, "subtitle"),
        Self.notification([4], max: Limits.textBytesMax, "body"),
        Self.notification([5], max: Self.short, "title_loc_key"),
        Self.notification([6], max: Limits.textBytesMax, "title_loc_args[0]"),
        Self.notification([7], max: Self.short, "subtitle_loc_key"),
        Self.notification([8], max: Limits.textBytesMax, "subtitle_loc_args[0]"),
        Self.notification([9], max: Self.short, "body_loc_key"),
        Self.notification([10], max: Limits.textBytesMax, "body_loc_args[0]"),
        Self.notification([11], max: Self.short, "launch_image"),
        Self.notification([12], max: Limits.urlBytesMax, "image"),
        Self.notification([13, 1], max: Self.short, "sound.name"),
        Self.notification([16], max: Self.short, "category"),
        Self.notification([17], max: Self.short, "thread_id"),
        Self.notification([18], max: Self.short, "channel_id"),
        Self.notification([19], max: Self.short, "tag"),
        Self.notification([20], max: Limits.urlBytesMax, "click_action"),
        Self.notification([21], max: Self.short, "color"),
        Self.notification([22, 1], max: Limits.dataKeyBytesMax, "data[0].key"),
        Self.notification([22, 2], beside: Wire.text(1, "k"), max: Limits.dataValueBytesMax, "data[0].value"),
        Self.notification([26], max: Self.short, "collapse_key"),
        Self.notification([31], max: Self.short, "target_content_id"),
        Self.notification([32], max: Self.short, "filter_criteria"),
        Self.notification([33, 2], beside: Wire.number(1, 1), max: 8_192, "live_activity.content_state_json"),
        Self.notification([33, 3], beside: Wire.number(1, 1), max: Self.short, "live_activity.attributes_type"),
        Self.notification([33, 4], beside: Wire.number(1, 1), max: 8_192, "live_activity.attributes_json"),
        Self.notification([33, 9], beside: Wire.number(1, 1), max: Self.short, "live_activity.input_push_channel"),
        Self.notification([33, 10], beside: Wire.number(1, 1), max: Self.short, "live_activity.activity_id"),
        Self.notification([34, 1], max: Limits.localeBytesMax, "variants[0].locale"),
        Self.notification([34, 2], beside: Wire.text(1, "fr"), max: Limits.textBytesMax, "variants[0].title"),
        Self.notification([34, 3], beside: Wire.text(1, "fr"), max: Limits.textBytesMax, "variants[0].subtitle"),
        Self.notification([34, 4], beside: Wire.text(1, "fr"), max: Limits.textBytesMax, "variants[0].body"),
        Self.notification([34, 5], beside: Wire.text(1, "fr"), max: Limits.urlBytesMax, "variants[0].image"),
        Self.notification([34, 6], beside: Wire.text(1, "fr"), max: Limits.urlBytesMax, "variants[0].click_action"),
        Self.notification([35], max: Limits.jsonOverrideBytesMax, "apns_json"),
        Self.notification([36], max: Limits.jsonOverrideBytesMax, "android_json"),
        Self.notification([37], max: Limits.jsonOverrideBytesMax, "webpush_json"),
        Self.notification([41], max: Self.short, "analytics_label"),
        Self.notification([42], max: Limits.jsonOverrideBytesMax, "fcm_apns_json"),
        Self.arguments(6, "title_loc_args"),
        Self.arguments(8, "subtitle_loc_args"),
        Self.arguments(10, "body_loc_args"),
        .count(
            SendCommand.self,
            Least.app + Least.topic,
            [4, 34],
            Wire.text(1, "fr"),
            max: Limits.localeVariantsMax,
            "notification.variants"
        ),
        .numbered(
            SendCommand.self,
            Least.app + Least.topic,
            [4, 22],
            { Wire.text(1, "key-\($0)") },
            max: Limits.dataEntriesMax,
            "notification.data"
        ),
    ]

    static let devices: [Limit] = [
        .bytes(DeviceRecord.self, Wire.text(8, "d"), [1], max: Limits.tokenBytesMax, "token"),
        .bytes(DeviceRecord.self, Least.record, [4], max: Limits.userIDBytesMax, "user"),
        .bytes(DeviceRecord.self, Wire.bytes(1, [0]), [8], max: Limits.deviceIDBytesMax, "device"),
        .bytes(DeviceRecord.self, Least.record, [6, 1], max: Limits.localeBytesMax, "attributes.locale"),
        .bytes(DeviceRecord.self, Least.record, [6, 2], max: Limits.timeZoneBytesMax, "attributes.time_zone"),
        .bytes(DeviceRecord.self, Least.record, [6, 3], max: Limits.appVersionBytesMax, "attributes.app_version"),
        .bytes(DeviceRecord.self, Least.record, [6, 4], max: Limits.countryBytesMax, "attributes.country"),
        .bytes(DeviceRecord.self, Least.record, [6, 5], max: Limits.tagBytesMax, "attributes.tags[0]"),
        .count(DeviceRecord.self, Least.record, [6, 5], [0x74], max: Limits.tagsPerDeviceMax, "attributes.tags"),
        Limit(field: "topics", max: Limits.topicsPerDeviceMax) { count throws(MessageError) in
            let topics = Array((0..<count).map { Wire.number(5, UInt64($0)) }.joined())
            _ = try DeviceRecord.decode(Least.record + topics).encode()
        },
        .count(
            DeviceRecord.self,
            Least.record,
            [12],
            Wire.number(1, 3) + Wire.bytes(2, [0]),
            max: Limits.secondaryAddressesMax,
            "secondary"
        ),
        .bytes(
            DeviceRecord.self,
            Least.record,
            [12, 2],
            beside: Wire.number(1, 3),
            max: Limits.tokenBytesMax,
            "secondary[0].token"
        ),
        .bytes(
            DeviceRecord.self,
            Least.record,
            [12, 3],
            beside: Wire.number(1, 3) + Wire.bytes(2, [0]),
            max: Self.short,
            "secondary[0].activity_id"
        ),
        .bytes(
            DeviceRegistration.self,
            Wire.number(2, 1) + Wire.text(3, "0"),
            [1],
            max: Limits.deviceIDBytesMax,
            "device"
        ),
        .bytes(
            DeviceRegistration.self,
            Wire.text(1, "d") + Wire.number(2, 1),
            [3],
            max: Limits.tokenBytesMax,
            "token"
        ),
        .bytes(DeviceRegistration.self, Least.device, [6], max: Limits.userIDBytesMax, "user"),
        .bytes(DeviceRegistration.self, Least.device, [7, 4], max: Limits.countryBytesMax, "attributes.country"),
        .bytes(
            DeviceRegistration.self,
            Least.device + Wire.number(9, 1),
            [8],
            max: Limits.topicTextBytesMax,
            "topics[0]"
        ),
        .count(
            DeviceRegistration.self,
            Least.device + Wire.number(9, 1),
            [8],
            [0x74],
            max: Limits.topicsPerDeviceMax,
            "topics"
        ),
        .bytes(RegistrationCommand.self, Least.app + Self.unregister, [1], max: Self.short, "id"),
        .bytes(RegistrationCommand.self, Self.unregister, [2], max: Limits.appIDBytesMax, "app"),
        .bytes(RegistrationCommand.self, Least.app + Self.unregister, [12], max: Limits.replyToBytesMax, "reply_to"),
        .bytes(
            RegistrationCommand.self,
            Least.app + Self.unregister,
            [13],
            max: Limits.traceparentBytesMax,
            "traceparent"
        ),
        .bytes(
            RegistrationCommand.self,
            Least.app,
            [4, 6],
            beside: Least.device,
            max: Limits.userIDBytesMax,
            "register.user"
        ),
        .bytes(RegistrationCommand.self, Least.app, [5, 1], max: Limits.deviceIDBytesMax, "unregister.device"),
        .bytes(
            RegistrationCommand.self,
            Least.app,
            [6, 2],
            beside: Wire.text(1, "d"),
            max: Limits.topicTextBytesMax,
            "subscribe.topics[0]"
        ),
        .bytes(
            RegistrationCommand.self,
            Least.app,
            [7, 1],
            beside: Wire.text(2, "t"),
            max: Limits.deviceIDBytesMax,
            "unsubscribe.device"
        ),
        .bytes(
            RegistrationCommand.self,
            Least.app,
            [8, 2],
            beside: Wire.text(1, "d"),
            max: Limits.userIDBytesMax,
            "bind_user.user"
        ),
        .bytes(RegistrationCommand.self, Least.app, [9, 1], max: Limits.deviceIDBytesMax, "unbind_user.device"),
        .bytes(
            RegistrationCommand.self,
            Least.app,
            [11, 1],
            max: Limits.userIDBytesMax,
            "delete_user.user"
        ),
        Limit(field: "set_attributes.attributes.app_version", max: Limits.appVersionBytesMax) {
            count throws(MessageError) in
            let version = Wire.nested([2, 3], Array(repeating: 0x31, count: count))
            _ = try RegistrationCommand.decode(Least.app + Wire.bytes(10, Wire.text(1, "d") + version)).encode()
        },
    ]

    static let outcomes: [Limit] = [
        .bytes(OutcomeBatch.self, Wire.text(2, "a") + Self.route, [1], max: Limits.sendIDBytesMax, "send"),
        .bytes(OutcomeBatch.self, Wire.text(1, "s") + Self.route, [2], max: Limits.appIDBytesMax, "app"),
        .bytes(OutcomeBatch.self, Least.batch, [6], max: Self.short, "unit"),
        .bytes(OutcomeBatch.self, Least.batch, [15], max: Limits.replyToBytesMax, "reply_to"),
        .bytes(OutcomeBatch.self, Least.batch, [17], max: Limits.traceparentBytesMax, "traceparent"),
        .bytes(OutcomeBatch.self, Least.batch, [20], max: Limits.tracestateBytesMax, "tracestate"),
        .count(OutcomeBatch.self, Least.batch, [8], Least.count, max: Limits.outcomeCountsMax, "counts"),
        .count(OutcomeBatch.self, Least.batch, [9], Least.verdict, max: Limits.unitRecipientsMax, "unregistered"),
        .count(OutcomeBatch.self, Least.batch, [10], Least.verdict, max: Limits.unitRecipientsMax, "suspects"),
        .count(OutcomeBatch.self, Least.batch, [23], Least.verdict, max: Limits.unitRecipientsMax, "refusals"),
        .count(OutcomeBatch.self, Least.batch, [11], Least.outcome, max: Limits.unitRecipientsMax, "recipients"),
        .bytes(
            OutcomeBatch.self,
            Least.batch,
            [10, 5],
            beside: Least.verdict,
            max: Limits.providerTextBytesMax,
            "suspects[0].provider_reason"
        ),
        .bytes(
            OutcomeBatch.self,
            Least.batch,
            [11, 4],
            beside: Least.outcome,
            max: Limits.providerTextBytesMax,
            "recipients[0].provider_reason"
        ),
        .bytes(
            OutcomeBatch.self,
            Least.batch,
            [11, 5],
            beside: Least.outcome,
            max: Limits.providerIDBytesMax,
            "recipients[0].provider_id"
        ),
        .bytes(
            OutcomeBatch.self,
            Least.batch,
            [11, 7],
            beside: Least.outcome,
            max: Limits.deviceIDBytesMax,
            "recipients[0].device"
        ),
        Limit(field: "recipients[0].place.address", max: Limits.recipientsMax) { count throws(MessageError) in
            let outcome = Wire.nested([1], Wire.number(4, UInt64(count))) + Wire.number(2, 2) + Wire.number(3, 1)
            _ = try OutcomeBatch.decode(Least.batch + Wire.bytes(11, outcome)).encode()
        },
        .bytes(SendReceipt.self, Wire.number(4, 1), [1], max: Self.short, "id"),
        .bytes(SendReceipt.self, Least.receipt, [2], max: Limits.sendIDBytesMax, "send"),
        .bytes(SendReceipt.self, Least.receipt, [3], max: Limits.appIDBytesMax, "app"),
        .bytes(SendReceipt.self, Least.receipt, [12], max: Limits.traceparentBytesMax, "traceparent"),
        .bytes(SendReceipt.self, Least.receipt, [17], max: Limits.tracestateBytesMax, "tracestate"),
        .bytes(SendReceipt.self, Least.receipt, [13], max: Limits.idempotencyKeyBytesMax, "idempotency_key"),
        .bytes(SendReceipt.self, Least.receipt, [14], max: Limits.sendIDBytesMax, "duplicate_of"),
        .bytes(SendReceipt.self, Least.receipt, [5, 1], max: Self.short, "problem.code"),
        .bytes(SendReceipt.self, Least.receipt, [5, 2], beside: Wire.text(1, "c"), max: Self.short, "problem.field"),
        .bytes(
            SendReceipt.self,
            Least.receipt,
            [5, 3],
            beside: Wire.text(1, "c"),
            max: Limits.textBytesMax,
            "problem.detail"
        ),
        .count(SendReceipt.self, Least.receipt, [7], Least.count, max: Limits.outcomeCountsMax, "counts"),
        .count(SendReceipt.self, Least.receipt, [8], Least.outcome, max: Limits.unitRecipientsMax, "recipients"),
        .count(SendReceipt.self, Least.receipt, [15], Wire.number(1, 1), max: Limits.dryRunPartsMax, "renderings"),
        .bytes(
            SendReceipt.self,
            Least.receipt,
            [15, 6],
            beside: Wire.number(1, 1),
            max: Limits.dryRunPayloadBytesMax,
            "renderings[0].payload"
        ),
        .bytes(
            SendReceipt.self,
            Least.receipt,
            [15, 7],
            beside: Wire.number(1, 1),
            max: Limits.dryRunPayloadBytesMax,
            "renderings[0].headers[0]"
        ),
        .count(SendReceipt.self, Least.receipt, [16], Wire.text(1, "c"), max: Limits.dryRunPartsMax, "lints"),
        .bytes(ClientEvent.self, Self.event(without: 1), [1], max: Self.short, "id"),
        .bytes(ClientEvent.self, Self.event(without: 2), [2], max: Limits.appIDBytesMax, "app"),
        .bytes(ClientEvent.self, Self.event(without: 3), [3], max: Limits.deviceIDBytesMax, "device"),
        .bytes(ClientEvent.self, Self.event(without: 4), [4], max: Limits.sendIDBytesMax, "send"),
        .bytes(ClientEvent.self, Least.event, [6], max: Self.short, "action"),
        .bytes(DeadLetter.self, Least.letter, [5], max: Limits.textBytesMax, "detail"),
        .bytes(DeadLetter.self, Least.letter, [6], max: Limits.deadLetterPayloadBytesMax, "payload"),
        .bytes(DeadLetter.self, Least.letter, [9], max: Self.short, "service"),
        .bytes(DeadLetter.self, Least.letter, [10], max: Limits.appIDBytesMax, "app"),
        .bytes(DeadLetter.self, Least.letter, [11], max: Limits.sendIDBytesMax, "send"),
        .bytes(DeadLetter.self, Least.letter, [12], max: Self.short, "field"),
    ]

    static let units: [Limit] = [
        Limit(field: "addresses", max: Limits.unitRecipientsMax) { count throws(MessageError) in
            let indices = Wire.nested([10, 1], Array(repeating: 0, count: count))
            _ = try WorkUnit.decode(Least.unitHead + Wire.number(4, UInt64(count)) + indices).encode()
        },
        Limit(field: "references", max: Limits.unitRecipientsMax) { count throws(MessageError) in
            let run = [UInt8](repeating: 1, count: count)
            let references = Wire.bytes(1, run) + Wire.bytes(2, run) + Wire.bytes(3, run)
            _ = try WorkUnit.decode(Least.unitHead + Wire.number(4, UInt64(count)) + Wire.bytes(9, references)).encode()
        },
        Limit(field: "segments", max: Limits.unitRecipientsMax) { count throws(MessageError) in
            let ordinals = (0..<count).flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
            let segment = Wire.nested([8, 1], Wire.bytes(3, ordinals))
            _ = try WorkUnit.decode(Least.unitHead + Wire.number(4, UInt64(count)) + segment).encode()
        },
        Limit(field: "segments.segments", max: Limits.unitRecipientsMax) { count throws(MessageError) in
            let segments = Wire.repeating(Wire.nested([1], Wire.bytes(3, [0, 0])), count)
            _ = try WorkUnit.decode(Least.unitHead + Wire.number(4, UInt64(count)) + Wire.bytes(8, segments)).encode()
        },
        Limit(field: "addresses.indices[0]", max: Limits.recipientsMax - 1) { index throws(MessageError) in
            let indices = Wire.nested([10, 1], Wire.varint(UInt64(index)))
            _ = try WorkUnit.decode(Least.unitHead + Wire.number(4, 1) + indices).encode()
        },
    ]

    @Test(arguments: Self.sends + Self.notifications + Self.devices + Self.outcomes + Self.units)
    func whatIsAtTheLimitIsTakenAndOnePastItRefused(_ limit: Limit) throws {
        try limit.pass(limit.max)
        let error = #expect(throws: MessageError.self) { try limit.pass(limit.max + 1) }
        #expect(error?.code == .limitExceeded)
        #expect(error?.field == limit.field)
    }

    private static let route = Wire.number(3, 1) + Wire.number(4, 1)
    private static let unregister = Wire.nested([5], Wire.text(1, "d"))

    private static func event(without field: UInt64) -> [UInt8] {
        Array((1...4).filter { $0 != field }.map { Wire.text($0, "e") }.joined()) + Wire.number(5, 1)
    }

    private static func target(_ path: [UInt64], _ element: [UInt8], max: Int, _ field: String) -> Limit {
        .count(SendCommand.self, Least.app + Wire.bytes(4, []), [3] + path + [1], element, max: max, "target.\(field)")
    }

    private static func targetBytes(_ path: [UInt64], max: Int, _ field: String) -> Limit {
        .bytes(SendCommand.self, Least.app + Wire.bytes(4, []), [3] + path, max: max, "target.\(field)")
    }

    private static func notification(
        _ path: [UInt64],
        beside: [UInt8] = [],
        max: Int,
        _ field: String,
    ) -> Limit {
        .bytes(SendCommand.self, Least.app + Least.topic, [4] + path, beside: beside, max: max, "notification.\(field)")
    }

    private static func arguments(_ number: UInt64, _ field: String) -> Limit {
        .count(
            SendCommand.self,
            Least.app + Least.topic,
            [4, number],
            [0x61],
            max: Limits.localizationArgumentsMax,
            "notification.\(field)"
        )
    }
}
