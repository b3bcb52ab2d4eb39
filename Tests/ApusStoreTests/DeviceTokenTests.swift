import ApusCore
import ApusStore
import Testing

struct DeviceTokenTests {
    @Test func apnsTokensAreStoredRaw() throws {
        #expect(try DeviceToken.stored("00ffAB", of: .apns) == [0x00, 0xff, 0xab])
        #expect(try DeviceToken.stored(String(repeating: "0a", count: 200), of: .apns).count == 200)
    }

    @Test(arguments: ["", "0", "zz", "00 ff", "0x00", String(repeating: "0a", count: 201)])
    func whatIsNoAPNsTokenIsRefused(_ text: String) {
        #expect { try DeviceToken.stored(text, of: .apns) } throws: { ($0 as? StoreError)?.code == .invalidToken }
    }

    @Test func fcmTokensArePrintableText() throws {
        for text in ["abc:APA91-_", "a/b+c==%!'"] {
            #expect(try DeviceToken.stored(text, of: .fcm) == Array(text.utf8))
        }
        #expect(try DeviceToken.stored(String(repeating: "a", count: 4_096), of: .fcm).count == 4_096)
    }

    @Test(arguments: ["", "a b", "a\n", "ä", "a\"", "a\\", String(repeating: "a", count: 4_097)])
    func whatIsNoFCMTokenIsRefused(_ text: String) {
        #expect { try DeviceToken.stored(text, of: .fcm) } throws: { ($0 as? StoreError)?.code == .invalidToken }
    }

    @Test func webPushTokensAreHTTPSEndpoints() throws {
        #expect(try DeviceToken.stored("https://push.example/x?y=1", of: .webpush).count == 26)
        let longest = "https://push.example/" + String(repeating: "a", count: 2_048 - 21)
        #expect(try DeviceToken.stored(longest, of: .webpush).count == 2_048)
        let spelt = try DeviceToken.stored("https://Push.Example:443/Abc?D=E", of: .webpush)
        #expect(String(decoding: spelt, as: UTF8.self) == "https://push.example:443/Abc?D=E")
    }

    @Test(arguments: [
        "", "http://push.example/x", "https://", "https:///x", "https://me@push.example/", "https://push.example/#a",
        "https://push.example/ x", "https://push.example/" + String(repeating: "a", count: 2_048 - 20),
    ])
    func whatIsNoEndpointIsRefused(_ text: String) {
        #expect { try DeviceToken.stored(text, of: .webpush) } throws: { ($0 as? StoreError)?.code == .invalidToken }
    }

    @Test func theDigestIsTheBeginningOfSHA256() {
        // SHA-256("abc") begins with ba7816bf 8f01cfea (FIPS 180-4).
        #expect(DeviceToken.digest(Array("abc".utf8)) == 0xba78_16bf_8f01_cfea)
    }
}
