import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import Testing

@Suite struct APNsTokenKindTests {
    private static let own: [TokenKind: [Notification.Kind]] = [
        .device: [.alert, .background, .complication, .fileProvider, .mdm, .location],
        .installation: [],
        .voip: [.voip],
        .liveActivityStart: [.liveActivity],
        .liveActivityUpdate: [.liveActivity],
        .pushToTalk: [.pushToTalk],
        .widgets: [.widgets],
        .controls: [.controls],
    ]

    @Test("Apple's tokens take what their service is for, and nothing else", arguments: TokenKind.allCases)
    func apple(token: TokenKind) {
        let taken = Notification.Kind.allCases.filter { APNsPushType.tokenKinds(for: $0).contains(token) }
        #expect(taken == Notification.Kind.allCases.filter { Self.own[token, default: []].contains($0) })
    }
}
