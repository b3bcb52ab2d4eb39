import ApusService
import Testing

@Suite struct SettingsQuantityTests {
    @Test(
        arguments: [
            ("250ms", Duration.milliseconds(250)), ("10s", .seconds(10)), ("5m", .seconds(300)),
            ("2h", .seconds(7_200)),
            ("7d", .seconds(604_800)), ("0s", .zero), ("10", nil), ("", nil), ("s", nil), ("-1s", nil), ("1.5s", nil),
            ("1 s", nil), ("10S", nil), ("9223372036854775807d", nil), ("٣s", nil),
        ] as [(String, Duration?)]
    )
    func durationsNeedAUnit(text: String, duration: Duration?) {
        #expect(SettingsQuantity.duration(text) == duration)
    }

    @Test(
        arguments: [
            ("512", 512), ("4KiB", 4_096), ("16MiB", 16 << 20), ("1GiB", 1 << 30), ("4KB", nil), ("4k", nil),
            ("-1", nil),
            ("", nil), ("KiB", nil), ("9223372036854775807GiB", nil),
        ] as [(String, Int?)]
    )
    func sizesAreBinary(text: String, size: Int?) {
        #expect(SettingsQuantity.size(text) == size)
    }

    @Test(
        arguments: [
            ("127.0.0.1:9102", "127.0.0.1:9102"), ("[::1]:0", "[::1]:0"), (":80", "0.0.0.0:80"),
            ("localhost:65535", "localhost:65535"), ("localhost:65536", nil), ("::1:80", nil), ("localhost", nil),
            ("localhost:", nil), ("localhost:x", nil), ("local host:1", nil),
        ] as [(String, String?)]
    )
    func addressesHaveAPort(text: String, address: String?) {
        #expect(ListenAddress(text)?.description == address)
    }
}
