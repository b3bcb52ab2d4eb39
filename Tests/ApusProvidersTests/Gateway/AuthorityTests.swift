import ApusAPNs
import ApusMessages
import ApusProviders
import Testing

@Suite struct AuthorityTests {
    @Test func `An authority that could not be a host is refused when a message is prepared`() {
        #expect(throws: Problem.self) { try PreparedMessage.apns(renderAPNs(notification()), authority: "a b") }
    }
}
