import Testing

@testable import ApusTerminal

@Suite struct RedisAccessTests {
    @Test(arguments: [
        ("redis://localhost:6379", ", and does it want TLS (then rediss://)"),
        ("rediss://localhost:6379", ", and does it speak TLS (rediss://)"),
        ("redis+cluster://a:6379,b:6379", ", and does it want TLS (then rediss+cluster://)"),
        ("rediss+cluster://a:6379,b:6379", ", and does it speak TLS (rediss+cluster://)"),
        ("unix:///run/redis.sock", ""),
    ])
    func `A Redis that does not answer is asked about TLS by the scheme of its kind, and a socket is not`(
        place: String,
        hint: String,
    ) {
        #expect(RedisAccess.hintOnTLS(at: place) == hint)
    }
}
