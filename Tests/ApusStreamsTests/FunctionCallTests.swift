import ApusCore
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// Both sides of a call have the same fields, with defaults where the other may be of another version.
@Suite struct FunctionCallTests {
    private static let consumer = StreamConsumer(group: "g", name: "c")
    private static let entry = StreamEntry(stream: "s", id: "1-1", message: []).name

    private static let calls: [any FunctionCall] = [
        PublishCall(keys: [], key: [], digest: [], app: "", send: "", entriesMax: 0, command: []),
        AdmitSendCall(keys: [], app: "", key: [], digest: [], send: "", entry: Self.entry),
        AcceptSendCall(
            keys: [],
            app: "",
            key: [],
            digest: [],
            send: "",
            command: [],
            routes: [],
            dueMilliseconds: 0,
            ratePerSecond: 0,
            mailbox: "",
            group: "",
            entry: Self.entry,
        ),
        FinishSendCall(keys: [], consumer: Self.consumer, entry: Self.entry, receipt: [], outcomes: []),
        FinishSendsCall([
            FinishSendCall(keys: [], consumer: Self.consumer, entry: Self.entry, receipt: [], outcomes: [[]])
        ]),
        PersistSendCall(
            keys: [],
            app: "",
            digest: [],
            origin: "",
            command: [],
            recipients: 0,
            ratePerSecond: 0,
            outcomes: [],
            retries: Self.noRetries,
        ),
        MarkWriteCall(keys: []), FindIdempotencyKeyCall(keys: [], key: []),
        SetIdempotencyWindowCall(keys: [], windowMilliseconds: 0),
        ForgetIdempotencyKeyCall(keys: [], key: [], origin: ""),
        RestoreCommandCall(keys: [], key: [], origin: "", command: []),
        AdvancePlanCall(
            keys: [],
            consumer: Self.consumer,
            entry: "",
            cursor: "",
            nextCursor: "",
            planned: 0,
            outcomes: [],
            ending: "",
            cancelledOutcomes: [],
            work: "",
            units: [],
            unitRecipients: [],
        ),
        RecordProgressCall(
            keys: [],
            consumer: Self.consumer,
            entry: "",
            journal: [],
            outcomes: [],
            nextStep: "",
            retries: Self.noRetries,
        ),
        MoveDueCall(keys: [], limit: 0),
        ListSendsCall(keys: [], app: "", limit: 0, before: nil, state: "", search: ""),
        RecordAuditCall(keys: [], actor: "", source: "", action: "", app: "", object: "", detail: ""),
        RepeatMoveDueCall(keys: [], ids: [], entries: []),
        AcknowledgeCall(keys: [], consumer: Self.consumer, entries: []),
        ClaimEntriesCall(keys: [], consumer: Self.consumer, leaseMilliseconds: 0, counts: [], cursors: []),
        RereadEntriesCall(keys: [], consumer: Self.consumer, idleMilliseconds: 0, count: 0, inHand: []),
        TakeAgainCall(keys: [], consumer: Self.consumer, entry: "", deliveries: 0, digest: ""),
        RenewLeasesCall(
            keys: [],
            consumer: Self.consumer,
            idleMilliseconds: 0,
            isExact: false,
            entries: [],
            deliveries: [],
        ),
        ReclaimEntriesCall(keys: [], consumer: Self.consumer, leaseMilliseconds: 0, entries: []),
        CountRemovedCall(keys: [], group: ""),
        RemoveConsumerCall(keys: [], consumer: Self.consumer),
        CreateGroupsCall(keys: [], group: ""),
        ApplyOutcomesCall(
            keys: [],
            consumer: Self.consumer,
            entry: Self.entry,
            firstMilliseconds: nil,
            lastMilliseconds: nil,
            retentionMilliseconds: 0,
            names: [],
            counts: [],
            progress: nil,
        ),
        WriteReceiptCall(keys: [], receipt: []),
        WriteReplyCall(keys: [], receipt: [], entriesMax: 0),
        ReportEventsCall(keys: [], entriesMax: 0, events: []),
        CountEventCall(
            keys: [],
            consumer: Self.consumer,
            entry: Self.entry,
            name: "",
            idDigest: "",
            bucket: 0,
            idsMax: 0,
            deviceDigest: "",
            deviceIDsMax: 0,
            retentionMilliseconds: 0,
        ),
        ControlSendCall(keys: [], command: ""),
        ReleaseHeldCall(keys: [], limit: 0),
        MoveSendDueCall(keys: [], send: "", cursor: "", limit: 0),
        BeginSweepCall(keys: [], periodMilliseconds: 0),
        CloseLostSendCall(
            keys: [],
            silenceMilliseconds: 0,
            planned: "",
            closed: "",
            unitPrefix: [],
            outcomesPrefix: [],
            outcomes: [],
            streams: [],
        ),
        DeadLetterCall(keys: [], consumer: Self.consumer, entry: Self.entry, letter: [], receipt: [], outcomes: []),
        KeepDeadLetterCall(keys: [], letter: []),
        ReplayDeadLetterCall(keys: [], entry: "", message: [], send: "", recipients: 0),
        NumberRouteCall(keys: [], route: ""),
        ReportRoutesCall(keys: [], routes: [], absenceMilliseconds: 0, names: []),
        ControlRouteCall(keys: [], command: ""),
        RouteStateCall(keys: []),
        ReportServiceCall(keys: [], process: "", service: "", version: "", uptimeMilliseconds: 0),
        RemoveServiceCall(keys: [], process: ""),
        ListServicesCall(keys: []),
        ListStoppedServicesCall(keys: []),
        RateLimitCall(
            limit: RateLimit(ofSend: "a/s", tag: HashTag(ofKey: "{1}")),
            member: "",
            ratePerSecond: 0,
            request: RateLimitRequest(),
        ),
        QuarantineTokensCall(keys: [], rules: Self.rules),
        DueQuarantinedTokensCall(keys: [], limit: 0, rules: Self.rules),
        RemoveQuarantinedTokensCall(keys: [], tokens: []),
        EndQuarantineCall(keys: [], resumes: false),
        QuarantineStateCall(keys: []),
        RecordChannelCall(keys: [], channel: "", state: ""),
        ForgetChannelsCall(keys: [], channels: []),
    ]

    private static let rules = GuardRules(
        windowMilliseconds: 1,
        delayMilliseconds: 1,
        tokensMin: 1,
        percentMax: 1,
        deadPercentMax: 1,
    )

    private static let noRetries = UnitRetry.Packed(delays: [], ids: [], streams: [], units: [])

    @Test func `Swift and Lua declare the same fields of every function`() throws {
        let declared = DeclaredFunction.all(in: [StreamFunctions.source])
        #expect(declared.count > 30)
        #expect(Set(Self.calls.map { type(of: $0).function }) == Set(declared.map(\.name)))
        for function in declared {
            let call = try #require(Self.calls.first { type(of: $0).function == function.name })
            #expect(call.declaredFields == function.fields, "\(function.name)")
            #expect(type(of: call).isReadOnly == function.isReadOnly, "\(function.name)")
        }
    }

    /// A call of `apus2_control_route` by a version that has another set of fields.
    private struct OtherVersionCall: FunctionCall {
        static let function = ControlRouteCall.function
        var keys: [String]
        var command: String?
        var reason: String?

        func set(_ fields: inout CallFields) {
            if let command { fields.set("command", command) }
            if let reason {
                fields.set("rate_per_second", optional: Double?.none)
                fields.set("reason", optional: reason)
            }
        }
    }

    @Test func `Callers of an older and of a newer version share one Redis`() async throws {
        try await StreamsFixture.with { fixture in
            let route = RouteNumber(7)
            let keys = fixture.streams.keys(ofRoute: route)
            let state = { try await fixture.streams.routes.state(of: route) }
            // The older one does not know the field `rate_per_second`: no limit, as by its default.
            let older = OtherVersionCall(keys: [keys.route(route)], command: "rate")
            _ = try await fixture.client.call(older, on: keys.tag)
            #expect(try await state().isOverridden)
            #expect(try await state().ratePerSecond == nil)
            let newer = OtherVersionCall(keys: [keys.route(route)], command: "pause", reason: "a field of tomorrow")
            _ = try await fixture.client.call(newer, on: keys.tag)
            #expect(try await state().isPaused)
            // Without a field that every call must have nothing is done.
            let error = await #expect(throws: RedisError.self) {
                try await fixture.client.call(OtherVersionCall(keys: [keys.route(route)]), on: keys.tag)
            }
            #expect(try #require(error).description.contains("the call has too few fields"))
        }
    }
}
