import ApusCore
import ApusMessages
import Testing

@testable import ApusRegistration

@Suite struct RegistrationRulesTests {
    @Test func `A kind of token is refused that its provider lacks`() {
        let kinds: [Provider: Set<TokenKind>] = [
            .apns: Set(TokenKind.allCases).subtracting([.installation]), .fcm: [.device, .installation],
            .webpush: [.device],
        ]
        for (provider, known) in kinds {
            for kind in TokenKind.allCases {
                var registration = DeviceRegistration(device: "d", provider: provider, token: "ab")
                registration.tokenKind = kind
                let mistake = RegistrationRules.mistake(in: registration, hosts: EndpointHosts()) ?? ""
                #expect(mistake.contains("token_kind") != known.contains(kind), "\(provider) \(kind): \(mistake)")
            }
        }
        #expect(RegistrationRules.tokenKind(.voip, of: .fcm) == "must be device or installation for fcm")
    }
}
