import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStore

/// Both sides of a call have the same fields.
@Suite struct FunctionCallTests {
    private static let put = PutDeviceCall(
        keys: [],
        digest: [],
        writing: StoreCalls.Writing(expected: [], record: [], stamp: .now, entered: [], left: []),
    )

    private static let calls: [any FunctionCall] = [
        Self.put, PutVerdictCall(put: Self.put), PutDevicesCall(keys: [], devices: []),
        RemoveDeviceCall(keys: [], digest: [], expected: [], topics: [], forgetsHistory: false),
        NoteRemovalCall(keys: [], digest: [], asOf: 0, rememberMilliseconds: 0),
        PrunedDevicesCall(keys: [], from: 0, before: 0, first: 0, limit: 0),
        ForgetPrunedCall(keys: [], digest: [], forgetsHistory: false),
        NoteFormerDeviceCall(keys: [], device: [], keepMilliseconds: 0, devicesMax: 0),
        FindDevicesCall(keys: [], digests: []),
        RepairDeviceCall(keys: [], ordinal: 0, expected: [], digest: [], entered: [], left: []),
        BeginUpkeepCall(keys: [], seconds: 0), PlaceMetaCall(keys: []),
        ReadPostingsCall(keys: [], first: 0, count: 0, topics: []),
        AddHistoryCall(keys: [], keepMilliseconds: 0, historiesMax: 0),
        ClaimTokenCall(keys: [], digest: [], claimer: []),
        ConfirmTokenCall(keys: [], digest: [], claimer: [], cleared: []),
        ClaimTokensCall(keys: [], claims: []), ConfirmTokensCall(keys: [], claims: []),
        SettledTokensCall(keys: [], claims: []),
        ReleaseTokenCall(keys: [], digest: [], owner: []), TokenOwnersCall(keys: [], digest: []),
        AddUserCall(keys: [], digest: [], device: [], devicesMax: 0),
        AddUsersCall(keys: [], additions: [], devicesMax: 0),
        NoteUserRemovalCall(keys: [], digest: [], asOf: 0, rememberMilliseconds: 0),
        RemoveUserCall(keys: [], digest: [], device: []), UserDevicesCall(keys: [], digests: []),
        FindTopicsCall(keys: [], topics: []),
        FindTopicCall(keys: [], digest: [], name: "", enters: false),
        ReserveTopicCall(keys: [], name: "", topicsMax: 0, ownerTopicsMax: 0, owner: [], usersTopicsMax: 0),
        ReleaseTopicCall(keys: [], name: ""),
        ForgetTopicCall(keys: [], digest: [], name: "", restMilliseconds: 0), UsedTopicsCall(keys: [], numbers: []),
        NumberTopicCall(keys: [], digest: [], name: "", counterMax: 0),
        TopicNamesCall(keys: [], counters: []),
        CountBadgesCall(keys: [], send: [], increment: 0, isRepeated: false, devices: []),
        SetBadgeCall(keys: [], ordinal: 0, generation: 0, count: 0),
    ]

    @Test func `Swift and Lua declare the same fields of every function`() throws {
        let declared = DeclaredFunction.all(in: [StoreFunctions.source])
        #expect(declared.count > 15)
        #expect(Set(Self.calls.map { type(of: $0).function }) == Set(declared.map(\.name)))
        for function in declared {
            let call = try #require(Self.calls.first { type(of: $0).function == function.name })
            #expect(call.declaredFields == function.fields, "\(function.name)")
            #expect(type(of: call).isReadOnly == function.isReadOnly, "\(function.name)")
        }
    }
}
