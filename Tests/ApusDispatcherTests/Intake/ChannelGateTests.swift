import ApusCore
import ApusMessages
import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct ChannelGateTests {
    private static func refusal(_ known: KnownChannel, storesLatest: Bool) -> String? {
        ChannelGate.problem(with: known, storesLatest: storesLatest).map { "\($0.code) \($0.field)" }
    }

    @Test func `D41 the publisher's storage policy of a channel must be the one it was created with`() {
        for storesLatest in [true, false] {
            #expect(Self.refusal(.there(storesLatest: storesLatest), storesLatest: storesLatest) == nil)
            let refusal = Self.refusal(.there(storesLatest: !storesLatest), storesLatest: storesLatest)
            #expect(refusal == "contradiction target.apns_channel.stores_latest")
        }
        let fleeting = ChannelGate.problem(with: .there(storesLatest: false), storesLatest: true)
        #expect(fleeting?.detail.hasPrefix("must be false") == true)
        let kept = ChannelGate.problem(with: .there(storesLatest: true), storesLatest: false)
        #expect(kept?.detail.hasPrefix("must be true") == true)
    }

    @Test func `D42 nothing is sent to a channel that is gone, whatever its storage policy`() {
        for storesLatest in [true, false] {
            let refusal = Self.refusal(.gone(since: UnixMilliseconds(1)), storesLatest: storesLatest)
            #expect(refusal == "channel_gone target.apns_channel.channel_id")
        }
    }
}
