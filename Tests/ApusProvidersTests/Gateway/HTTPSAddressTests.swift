import ApusMessages
import ApusProviders
import Testing

@Suite struct HTTPSAddressTests {
    @Test(
        "an address is taken apart",
        arguments: [
            ("https://fcm.googleapis.com", "fcm.googleapis.com", 443, "/", "fcm.googleapis.com"),
            ("https://oauth2.googleapis.com/token", "oauth2.googleapis.com", 443, "/token", "oauth2.googleapis.com"),
            ("HTTPS://127.0.0.1:8443/a?b=c", "127.0.0.1", 8_443, "/a?b=c", "127.0.0.1:8443"),
            ("https://localhost:443/", "localhost", 443, "/", "localhost"),
            ("https://[::1]:2197", "::1", 2_197, "/", "[::1]:2197"),
            ("https://host?q", "host", 443, "/?q", "host"),
        ]
    )
    func parts(_ text: String, _ host: String, _ port: Int, _ path: String, _ authority: String) throws {
        let address = try #require(HTTPSAddress(text))
        #expect(address.host == host)
        #expect(address.port == port)
        #expect(address.path == path)
        #expect(address.authority == authority)
    }

    @Test(
        "anything else is refused",
        arguments: [
            "", "http://host", "https://", "https://:443", "https://host:0", "https://host:65536", "https://host:+1",
            "https://user@host", "https://host/#a", "https://ho st", "https://[::1", "https://[host]", "https://hö",
            "https://host:", "https://" + String(repeating: "a", count: 254),
        ]
    )
    func refused(_ text: String) { #expect(HTTPSAddress(text) == nil) }

    @Test("an authority that could not be a host is refused when a message is prepared")
    func badAuthority() {
        #expect(throws: Problem.self) { try PreparedMessage.apns(renderAPNs(notification()), authority: "a b") }
    }
}
