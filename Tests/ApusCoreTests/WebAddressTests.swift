import ApusCore
import Testing

@Suite struct WebAddressTests {
    @Test(arguments: [
        ("https://fcm.googleapis.com", "fcm.googleapis.com", 443, "/", "fcm.googleapis.com"),
        ("https://oauth2.googleapis.com/token", "oauth2.googleapis.com", 443, "/token", "oauth2.googleapis.com"),
        ("HTTPS://127.0.0.1:8443/a?b=c", "127.0.0.1", 8_443, "/a?b=c", "127.0.0.1:8443"),
        ("https://localhost:443/", "localhost", 443, "/", "localhost"),
        ("https://[::1]:2197", "::1", 2_197, "/", "[::1]:2197"), ("https://host?q", "host", 443, "/?q", "host"),
        ("http://hooks.internal:8080/a?b=c", "hooks.internal", 8_080, "/a?b=c", "hooks.internal:8080"),
        ("http://example.org:80/", "example.org", 80, "/", "example.org"),
        ("http://example.org:443", "example.org", 443, "/", "example.org:443"),
        ("http://[::1]:4318", "::1", 4_318, "/", "[::1]:4318"),
        ("https://push.example.org/user@x/a", "push.example.org", 443, "/user@x/a", "push.example.org"),
    ])
    func `An address is split into its parts`(
        _ text: String,
        _ host: String,
        _ port: Int,
        _ path: String,
        _ authority: String
    ) throws {
        let address = try #require(WebAddress(text))
        #expect(address.isSecure == text.lowercased().hasPrefix("https:"))
        #expect(address.host == host && address.port == port)
        #expect(address.path == path && address.authority == authority)
        #expect((WebAddress(https: text) == nil) != address.isSecure)
    }

    @Test(arguments: [
        "", "host", "host:443", "ftp://host", "grpc://host", "https:host", "https://", "https://:443", "https://host:0",
        "https://host:65536", "https://host:+1", "http://host:x", "https://user@host", "https://me:pw@host/",
        "https://a@b:443/c", "https://host/#a", "https://ho st", "http://host/a b", "https://[::1", "http://[::1/",
        "https://[host]",
        "https://hö", "https://host:", "https://" + String(repeating: "a", count: 254),
        "https://host/" + String(repeating: "a", count: WebAddress.bytesMax),
    ])
    func `A text that is not an address is refused`(_ text: String) { #expect(WebAddress(text) == nil) }
}
