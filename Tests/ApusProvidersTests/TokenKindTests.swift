import ApusCore
import ApusMessages
import ApusProviders
import Testing

@Suite struct TokenKindTests {
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
        let taken = Notification.Kind.allCases.filter { token.takes($0, of: .apns) }
        #expect(taken == Notification.Kind.allCases.filter { Self.own[token, default: []].contains($0) })
    }

    @Test("Google's and the browsers' tokens take whatever can be written for them", arguments: TokenKind.allCases)
    func others(token: TokenKind) {
        for kind in Notification.Kind.allCases {
            #expect(token.takes(kind, of: .fcm) == [.device, .installation].contains(token))
            #expect(token.takes(kind, of: .webpush) == (token == .device))
        }
    }
}
