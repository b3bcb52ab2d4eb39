import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusStore
import ApusTestKit
import Testing

/// Tests that texts of devices cannot command the terminal of an operator.
@Suite struct TerminalTextTests {
    @Test func `What a device has written into its attributes is shown on its line, without control characters`()
        async throws
    {
        try await Fleet.with { fleet in
            let token = String(repeating: "1f", count: 32)
            var registration = DeviceRegistration(device: "phone", provider: .apns, token: token)
            let version = "\u{1b}]52;c;eA==\u{7}\u{9b}31m"
            registration.attributes.appVersion = version
            registration.attributes.timeZone = "UTC\nsuspect           since today"
            let store = fleet.installation.store
            _ = try await store.register(AppID(Fleet.app), registration)
            func shown(_ arguments: [String]) throws -> OperatorProgram.Answer {
                let answer = try OperatorProgram.run(arguments + ["--app", Fleet.app, "--redis", fleet.redis.url])
                let text = String(decoding: answer.output, as: UTF8.self)
                let control = text.unicodeScalars.filter { scalar in
                    scalar != "\n" && (scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value))
                }
                #expect(answer.code == 0 && control.isEmpty, "\(answer.talk)")
                return answer
            }
            let lines = try shown(["device", "get", "phone"]).lines
            #expect(lines.contains(#"app_version       \u001b]52;c;eA==\u0007\u009b31m"#), "\(lines)")
            #expect(lines.contains(#"time_zone         UTC\nsuspect           since today"#), "\(lines)")
            let answer = try shown(["device", "get", "phone", "--json"])
            #expect(answer.lines.count == 1 && answer.json?["app_version"]?.string == version)
            let export = try shown(["store", "export"])
            #expect(export.lines.count == 1 && export.lines[0].contains(#"\u009b31m"#))
        }
    }
}
