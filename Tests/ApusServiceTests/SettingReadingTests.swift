import ApusBuiltInProviders
import ApusService
import ApusTestKit
import Testing

private struct OwnSettings: ServiceSettings {
    init(_ reader: SettingsReader) {
        _ = reader.integer("dispatcher.window", default: 512, in: 1...10_000)
        _ = reader.boolean("dispatcher.dry_run", default: false)
        _ = reader.string("dispatcher.secret", isSecret: true)
        _ = reader.string("dispatcher.address")
    }
}

@Suite struct SettingReadingTests {
    private func survey(_ yaml: String, _ environment: [String: String] = [:]) throws -> SettingsSurvey {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: environment)
        return try source.survey(OwnSettings.self, for: .dispatcher)
    }

    @Test func `Each setting has its value and its origin`() throws {
        let yaml = """
            redis: {url: "redis://one:6379"}
            drain_timeout: 7s
            dispatcher:
              window: 100
              log: {level: debug}
            """
        let survey = try self.survey(yaml, ["APUS_DRAIN_TIMEOUT": "9s"])
        #expect(survey.mistakes.isEmpty)
        func reading(_ key: String) -> SettingReading? { survey.readings.first { $0.key == key } }
        #expect(reading("redis.url")?.value == "redis://one:6379")
        #expect(reading("redis.url")?.origin == .given("apus.yaml:1"))
        #expect(reading("drain_timeout")?.value == "9s")
        #expect(reading("drain_timeout")?.origin == .given("APUS_DRAIN_TIMEOUT"))
        #expect(reading("dispatcher.window")?.value == "100" && reading("dispatcher.window")?.defaultValue == "512")
        #expect(reading("dispatcher.window")?.kind == .integer(1...10_000))
        #expect(reading("log.level")?.value == "debug" && reading("log.level")?.origin == .given("apus.yaml:5"))
        #expect(reading("log.format")?.value == "auto" && reading("log.format")?.origin == .default)
        #expect(reading("dispatcher.dry_run")?.value == "false")
        #expect(reading("redis.user")?.value == nil && reading("redis.user")?.origin == .unset)
        #expect(reading("admin.listen")?.value == "127.0.0.1:9102")
        #expect(Set(survey.readings.map(\.key)).count == survey.readings.count)
    }

    @Test func `No secret is shown, not even one in the wrong place`() throws {
        let survey = try self.survey(
            """
            redis: {url: "redis://apus:hunter2@one:6379"}
            dispatcher:
              secret: hunter2
              address: "https://hook/x?key=hunter2"
              window: hunter2
            """
        )
        #expect(survey.mistakes.map(\.key) == ["dispatcher.window"])
        #expect(!"\(survey)".contains("hunter2"))
        func value(_ key: String) -> String? { survey.readings.first { $0.key == key }?.value }
        #expect(value("dispatcher.secret") == SettingReading.secret)
        #expect(value("dispatcher.address") == "https://hook/x?" + SettingReading.secret)
        #expect(value("redis.url") == "redis://apus:\(SettingReading.secret)@one:6379")
        #expect(value("dispatcher.window") == SettingReading.refused)
    }

    @Test func `Every setting is listed without a configuration, those of apps by a star, common ones in both places`()
        throws
    {
        BuiltInProviders.install()
        let all = try SettingsSource.everySetting(of: OwnSettings.self, for: .dispatcher)
        let keys = Set(all.map(\.key))
        for key in [
            "redis.url", "dispatcher.redis.url", "apps.*.apns.key_file", "apps.*.apns.certificate_file",
            "apps.*.fcm.project_id", "apps.*.auth.jwt.audience", "apps.*.auth.api_keys.*.sha256", "dispatcher.window",
        ] { #expect(keys.contains(key), "\(key)") }
        #expect(keys.count == all.count)
        #expect(!keys.contains { $0.contains(".any.") })
    }
}
