import ApusCore
import ApusProviders
import Testing

@Suite("Retry-After")
struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
    private let example = UnixMilliseconds(seconds: 784_111_777)

    @Test(
        "seconds",
        arguments: [
            ("0", 0), ("17", 17_000), (" 120 ", 120_000), ("86400", 86_400_000), ("86401", 86_400_000),
            ("99999999999999999999", 86_400_000),
        ] as [(String, Int64)]
    )
    func seconds(text: String, milliseconds: Int64) {
        #expect(RetryAfter.milliseconds(text, now: self.example) == milliseconds)
    }

    @Test(
        "D63 a date, in each of the three forms",
        arguments: ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    )
    func dates(text: String) {
        #expect(RetryAfter.milliseconds(text, now: self.example.advanced(byMilliseconds: -30_000)) == 30_000)
        #expect(RetryAfter.milliseconds(text, now: self.example) == 0)
        #expect(RetryAfter.milliseconds(text, now: self.example.advanced(byMilliseconds: 1)) == 0)
        #expect(RetryAfter.milliseconds(text, now: UnixMilliseconds(0)) == RetryAfter.millisecondsMax)
    }

    @Test("dates across centuries and leap days")
    func calendar() {
        func milliseconds(_ text: String, now: Int64) -> Int64? {
            RetryAfter.milliseconds(text, now: UnixMilliseconds(seconds: now))
        }
        #expect(milliseconds("Thu, 29 Feb 2024 00:00:00 GMT", now: 1_709_164_799) == 1_000)
        #expect(milliseconds("Sat, 21 Nov 2026 00:00:00 GMT", now: 1_795_219_190) == 10_000)
        #expect(milliseconds("Saturday, 21-Nov-26 00:00:00 GMT", now: 1_795_219_190) == 10_000)
        #expect(milliseconds("Saturday, 21-Nov-77 00:00:00 GMT", now: 1_795_219_190) == 0)
    }

    @Test(
        "anything else is nothing",
        arguments: [
            "", "-1", "1.5", "1s", "soon", "+5", "0x10", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT", "1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 CET", "٣",
        ]
    )
    func garbage(text: String) {
        #expect(RetryAfter.milliseconds(text, now: self.example) == nil)
    }
}
