import ApusAPNs
import ApusBuiltInProviders
import ApusCore
import ApusFCM
import ApusRedis
import ApusService
import ApusTestKit
import Foundation
import Logging
import Testing

private struct DispatcherSettings: ServiceSettings {
    var window: Int
    var flush: Duration
    var body: Int
    var isDry: Bool

    init(_ reader: SettingsReader) {
        self.window = reader.integer("dispatcher.window", default: 512, in: 1...10_000)
        self.flush = reader.duration(
            "dispatcher.flush",
            default: .milliseconds(10),
            in: .milliseconds(1) ... .seconds(1)
        )
        self.body = reader.size("dispatcher.body_max", default: 4_096, in: 1...1 << 20)
        self.isDry = reader.boolean("dispatcher.dry_run", default: false)
    }
}

private func load(
    _ yaml: String?,
    _ environment: [String: String] = [:],
) throws -> Settings<DispatcherSettings> {
    let owned = try TemporaryFolder()
    defer { withExtendedLifetime(owned) {} }
    let file = try yaml.map { try owned.write("apus.yaml", $0) }
    BuiltInProviders.install()
    return try SettingsSource(file: file, environment: environment).load(DispatcherSettings.self, for: .dispatcher)
}

private func mistakes(_ yaml: String?, _ environment: [String: String] = [:]) -> [String] {
    do {
        _ = try load(yaml, environment)
        return []
    } catch let error as SettingsError {
        return error.issues.map(\.description)
    } catch {
        return ["\(error)"]
    }
}

@Suite struct SettingsTests {
    @Test func nothingConfiguredGivesTheDefaults() throws {
        let settings = try load(nil)
        #expect(settings.common.redis.url == "redis://127.0.0.1:6379")
        #expect(settings.common.admin.listen == ListenAddress(host: "127.0.0.1", port: 9_102))
        #expect(settings.common.drainTimeout == .seconds(25))
        #expect(settings.common.log.level == .info)
        #expect(settings.common.log.format == .auto)
        #expect(settings.common.apps.isEmpty)
        #expect(settings.own.window == 512)
        #expect(try load("") == settings)
        #expect(try load("# nothing\n") == settings)
        let named = try load("apps:\nredis:\n")
        #expect(named.common == settings.common && named.own == settings.own)
    }

    @Test func aWholeFileIsRead() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("key.p8", "key")
        let yaml = """
            redis: {url: "rediss://redis.example:6380", user: apus, password_file: \(key), ca_file: \(key)}
            admin:
              listen: "[::1]:0"
              port_file: /run/apus.port
            log: {level: debug, format: json}
            drain_timeout: 1m
            event_loops: 4
            dispatcher:
              window: 64
              flush: 250ms
              body_max: 16KiB
              dry_run: true
            apps:
              shop:
                apns:
                  team_id: ABCDE12345
                  key_id: FGHIJ67890
                  key_file: \(key)
                  topic: com.example.shop
                  environments: [production, sandbox]
                  host: 127.0.0.1
                  port: 8443
                  ca_file: \(key)
                  connections: 7
                  rate_per_second: 2500
                fcm:
                  project_id: shop-12345
                  service_account_file: \(key)
                  base_url: https://127.0.0.1:8444
                  token_url: https://127.0.0.1:8444/token
                  rate_per_minute: unlimited
                  ramp: 5m
                auth:
                  jwt: {algorithm: hs256, secret_file: \(key), audience: shop, issuer: https://id.example}
                  api_keys:
                    backend:
                      sha256: \(String(repeating: "0a", count: 32))
                      role: publish
              news: {}
            registration:
              anything: here is for another service
            """
        let settings = try load(yaml)
        #expect(settings.common.redis.user == "apus")
        #expect(settings.common.admin.listen.description == "[::1]:0")
        #expect(settings.common.log.level == .debug)
        #expect(settings.common.drainTimeout == .seconds(60))
        #expect(settings.own.flush == .milliseconds(250))
        #expect(settings.own.body == 16_384)
        #expect(settings.own.isDry)
        let shop = try #require(settings.common.apps[AppID("shop")])
        let apns = try #require(shop.apns)
        #expect(apns.environments == [.production, .sandbox])
        #expect(apns.host(for: .sandbox) == "127.0.0.1")
        #expect(apns.port == 8_443)
        #expect(apns.connections == 7)
        #expect(apns.ratePerSecond == 2_500)
        #expect(shop.fcm?.ratePerMinute == nil && shop.fcm?.rampMilliseconds == 300_000)
        #expect(shop.fcm?.hasOwnRate == true)
        #expect(shop.fcm?.tokenURL == "https://127.0.0.1:8444/token")
        #expect(shop.auth.jwt?.algorithm == .hs256)
        #expect(shop.auth.apiKeys["backend"]?.sha256 == [UInt8](repeating: 0x0a, count: 32))
        #expect(shop.auth.apiKeys["backend"]?.role == .publish)
        #expect(settings.common.apps[try AppID("news")]?.apns == nil)
        #expect(Set(settings.files) == [key])
        withExtendedLifetime(folder) {}
    }

    @Test func googlesQuotaAndItsRampAreTheDefault() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("account.json", "{}")
        let settings = try load("apps: {shop: {fcm: {project_id: shop-12345, service_account_file: \(key)}}}")
        let fcm = try #require(settings.common.apps[try AppID("shop")]?.fcm)
        #expect(fcm.ratePerMinute == 600_000 && fcm.rampMilliseconds == 60_000 && !fcm.hasOwnRate)
        withExtendedLifetime(folder) {}
    }

    @Test func broadcastsGoWhereOtherNotificationsDoUnlessAnotherHostIsNamed() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("broadcast.p8", "key")
        func apns(_ more: String) throws -> APNsSettings {
            let key = "team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(file), topic: a.b"
            return try #require(try load("apps: {shop: {apns: {\(key)\(more)}}}").common.apps[AppID("shop")]?.apns)
        }
        let plain = try apns(", environments: [production, sandbox], port: 2197")
        #expect(plain.address(for: .production).authority == "api.push.apple.com:2197")
        #expect(plain.address(for: .sandbox).authority == "api.sandbox.push.apple.com:2197")
        for environment in ProviderEnvironment.allCases { #expect(plain.broadcastAddress(for: environment) == nil) }
        #expect(try apns("").address(for: .production).authority == "api.push.apple.com")
        #expect(try apns(", broadcast_host: api.push.apple.com").broadcastAddress(for: .production) == nil)
        let both = try apns(
            ", environments: [production, sandbox], port: 2197, broadcast_host: api-broadcast.push.apple.com"
                + ", sandbox_broadcast_host: api-broadcast.sandbox.push.apple.com, broadcast_port: 443"
        )
        #expect(both.broadcastAddress(for: .production)?.authority == "api-broadcast.push.apple.com")
        #expect(both.broadcastAddress(for: .sandbox)?.authority == "api-broadcast.sandbox.push.apple.com")
        let one = try apns(
            ", environments: [production, sandbox], sandbox_port: 2197, sandbox_broadcast_host: 127.0.0.1"
        )
        #expect(one.broadcastAddress(for: .production) == nil)
        #expect(one.broadcastAddress(for: .sandbox)?.authority == "127.0.0.1:2197")
        withExtendedLifetime(folder) {}
    }

    @Test(arguments: [
        ("sandbox_broadcast_host: 127.0.0.1", "apps.shop.apns.sandbox_broadcast_host", "leave it out"),
        ("broadcast_port: 2197", "apps.shop.apns.broadcast_port", "broadcast_host"),
        ("broadcast_host: 'not a host'", "apps.shop.apns.broadcast_host", "must be a host name"),
        ("channels_url: http://127.0.0.1", "apps.shop.apns.channels_url", "must be an address"),
    ])
    func anAddressOfBroadcastsThatNothingGoesToIsAMistake(_ line: String, _ key: String, _ cure: String) throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("mistake.p8", "key")
        let yaml =
            "apps: {shop: {apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(file), topic: a.b, \(line)}}}"
        do {
            _ = try load(yaml)
            Issue.record("it was taken")
        } catch let error as SettingsError {
            #expect(error.issues.map(\.key) == [key])
            #expect(error.issues.first?.message.contains(cure) == true)
        }
        withExtendedLifetime(folder) {}
    }

    @Test func applesHostsAreTheDefault() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("default.p8", "key")
        let settings = try load(
            "apps: {shop: {apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(key), topic: a.b}}}"
        )
        let apns = try #require(settings.common.apps[AppID("shop")]?.apns)
        #expect(apns.host(for: .production) == "api.push.apple.com")
        #expect(apns.host(for: .sandbox) == "api.sandbox.push.apple.com")
        #expect(apns.environments == [.production])
        withExtendedLifetime(folder) {}
    }

    @Test func anAppHasAKeyOrACertificateAndAScope() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("credential", "secret")
        func apns(_ text: String) -> String { "apps: {shop: {apns: {\(text), topic: a.b}}}" }
        func settings(_ text: String) throws -> APNsSettings {
            try #require(try load(apns(text)).common.apps[AppID("shop")]?.apns)
        }
        let key = "team_id: ABCDE12345, key_id: FGHIJ67890, key_file: \(file)"
        let plain = try settings(key)
        let keyed = APNsCredentialSettings.key(teamID: "ABCDE12345", keyID: "FGHIJ67890", file: file)
        #expect(plain.credential(for: .sandbox) == keyed && plain.topics == nil)
        let two = try settings(
            key + ", key_environment: production, environments: [production, sandbox], topics: [a.b, a.c]"
                + ", sandbox_key_id: ZZZZZ67890, sandbox_key_file: \(file)"
        )
        #expect(two.credential(for: .production) == keyed && two.topics == ["a.b", "a.c"])
        let sandboxed = APNsCredentialSettings.key(teamID: "ABCDE12345", keyID: "ZZZZZ67890", file: file)
        #expect(two.credential(for: .sandbox) == sandboxed)
        let certified = try settings("certificate_file: \(file), certificate_password_file: \(file)")
        #expect(certified.credential == .certificate(file: file, keyFile: nil, passwordFile: file))

        func said(_ text: String) -> [String] {
            mistakes(apns(text)).map { $0.split(separator: " (apus.yaml:1)").joined() }
        }
        let at = "apps.shop.apns"
        #expect(
            said("certificate_file: \(file), key_id: FGHIJ67890")
                == ["\(at).key_id: excludes certificate_file: give one or the other"]
        )
        #expect(
            said(key + ", certificate_password_file: \(file)")
                == ["\(at).certificate_password_file: can be given only with certificate_file"]
        )
        #expect(
            said(key + ", key_environment: production, environments: [production, sandbox]")
                == [
                    "\(at).environments: must not name sandbox, as the key is for production only: "
                        + "give sandbox_key_id and sandbox_key_file, or leave it out"
                ]
        )
        #expect(
            said(key + ", key_environment: sandbox")
                == ["\(at).environments: must not name production, as the key is for sandbox only: leave it out"]
        )
        #expect(said(key + ", topics: [a.c]") == ["\(at).topics: must name a.b, which the app sends to"])
        #expect(
            said(key + ", topics: [\"a b\"]") == [
                "\(at).topics: must be a list of bundle ids, such as com.example.shop"
            ]
        )
        #expect(
            said(key + ", sandbox_key_id: ZZZZZ67890")
                == ["\(at).sandbox_key_id: and sandbox_key_file must be given together"]
        )
        withExtendedLifetime(folder) {}
    }

    @Test func theEnvironmentWinsOverTheFileAndTheOwnSectionOverTheCommonOne() throws {
        let yaml = """
            admin: {listen: "127.0.0.1:1"}
            drain_timeout: 10s
            dispatcher: {admin: {listen: "127.0.0.1:2"}, window: 1}
            """
        #expect(try load(yaml).common.admin.listen.port == 2)
        #expect(
            try load(yaml, ["APUS_ADMIN_LISTEN": ":3"]).common.admin.listen == ListenAddress(host: "0.0.0.0", port: 3)
        )
        let both = ["APUS_ADMIN_LISTEN": ":3", "APUS_DISPATCHER_ADMIN_LISTEN": ":4"]
        #expect(try load(yaml, both).common.admin.listen.port == 4)
        #expect(try load(yaml, ["APUS_DISPATCHER_WINDOW": "9"]).own.window == 9)
        #expect(try load(yaml, ["APUS_DRAIN_TIMEOUT": "5s"]).common.drainTimeout == .seconds(5))
    }

    @Test func anAppMayComeFromTheEnvironmentInPart() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("part.p8", "key")
        let yaml = "apps: {my-shop: {apns: {team_id: ABCDE12345, topic: a.b}}}"
        let settings = try load(
            yaml,
            [
                "APUS_APPS_MY_SHOP_APNS_KEY_ID": "FGHIJ67890", "APUS_APPS_MY_SHOP_APNS_KEY_FILE": key,
                "APUS_APPS_MY_SHOP_APNS_ENVIRONMENTS": "sandbox,production",
            ],
        )
        #expect(try settings.common.apps[AppID("my-shop")]?.apns?.environments == [.sandbox, .production])
        withExtendedLifetime(folder) {}
    }

    @Test(arguments: [
        (
            "drain_timeout: 10",
            "drain_timeout (apus.yaml:1): must be a duration with a unit, such as 250ms, 10s, 5m or 2h"
        ),
        ("drain_timeout: 1d", "drain_timeout (apus.yaml:1): must be from 100ms to 10m"),
        (
            "log: {level: loud}",
            "log.level (apus.yaml:1): must be one of trace, debug, info, notice, warning, error, critical"
        ),
        ("log: {format: xml}", "log.format (apus.yaml:1): must be one of auto, json, text"),
        ("log: [json]", "log (apus.yaml:1): must be a section of keys"),
        (
            "admin:\n  listen: 9102",
            "admin.listen (apus.yaml:2): must be an address with a port, such as 127.0.0.1:9102, [::1]:9102 or :9102"
        ),
        ("event_loops: many", "event_loops (apus.yaml:1): must be a whole number from 0 to 256"),
        ("event_loops: 257", "event_loops (apus.yaml:1): must be a whole number from 0 to 256"),
        ("dispatcher: {body_max: 4KB}", "dispatcher.body_max (apus.yaml:1): must be a size such as 512, 4KiB or 16MiB"),
        ("dispatcher: {body_max: 2MiB}", "dispatcher.body_max (apus.yaml:1): must be from 1 to 1048576 bytes"),
        ("dispatcher: {dry_run: maybe}", "dispatcher.dry_run (apus.yaml:1): must be true or false"),
        ("dispatcher: {window: [1, 2]}", "dispatcher.window (apus.yaml:1): must be a single value"),
        ("redis: {user: apus}", "redis.user (apus.yaml:1): needs redis.password_file beside it"),
        (
            "redis: {sentinel_user: apus}",
            "redis.sentinel_user (apus.yaml:1): needs redis.sentinel_password_file beside it"
        ),
        (
            "redis: {sentinel_password_file: /etc/hostname}",
            "redis.sentinel_password_file (apus.yaml:1): needs a redis.url beside it that begins with redis+sentinel:// or "
                + "rediss+sentinel://"
        ),
        (
            "redis: {url: \"redis://h:6379/1\"}",
            "redis.url (apus.yaml:1): is not a Redis address: a cluster has only database 0"
        ),
        (
            "redis: {url: \"redis://u@h:6379\"}",
            "redis.url (apus.yaml:1): is not a Redis address: a user needs a password"
        ),
        (
            "redis: {url: \"redis+sentinel://a,b\"}",
            "redis.url (apus.yaml:1): is not a Redis address: the master's name is missing: "
                + "redis+sentinel://HOST:26379,HOST:26379/NAME"
        ),
        (
            "redis: {url: \"redis://:ab/cd@h:6379\"}",
            "redis.url (apus.yaml:1): is not a Redis address: in a user or a password '/' is written as %2F"
        ),
        (
            "redis: {url: \"redis://h:6379\", ca_file: /etc/hostname}",
            "redis.ca_file (apus.yaml:1): needs a redis.url beside it that begins with rediss://, rediss+cluster:// or "
                + "rediss+sentinel://"
        ),
        (
            "redis: {ca_file: /nowhere}",
            "redis.ca_file (apus.yaml:1): must be the path of a readable file: /nowhere: no such file or directory"
        ),
        (
            "redis: {ca_file: /tmp}",
            "redis.ca_file (apus.yaml:1): must be the path of a readable file: /tmp: is a directory"
        ),
        (
            "redis: {ca_file: hunter2}",
            "redis.ca_file (apus.yaml:1): must be the path of a readable file: no such file or directory"
        ),
        (
            "apps: {Shop: {}}",
            "apps.Shop (apus.yaml:1): is not a valid app: must be 1 to 32 of the characters a-z, 0-9 and -"
        ),
        ("apps: {shop: yes}", "apps.shop (apus.yaml:1): must be a section of keys"),
        ("apps: [shop]", "apps (apus.yaml:1): must be a section of keys"),
        ("apps: {shop: {apns: on}}", "apps.shop.apns (apus.yaml:1): must be a section of keys"),
        ("redis: {ulr: x}", "redis.ulr (apus.yaml:1): is not a known key; did you mean redis.url?"),
        ("reddis: {url: x}", "reddis (apus.yaml:1): is not a known key; did you mean redis?"),
        (
            "dispatcher: {windw: 3}",
            "dispatcher.windw (apus.yaml:1): is not a known key; did you mean dispatcher.window?"
        ),
        ("colour: red", "colour (apus.yaml:1): is not a known key"),
        (
            "apps: {shop: {apn: {team_id: x}}}",
            "apps.shop.apn (apus.yaml:1): is not a known key; did you mean apps.shop.apns?"
        ),
        ("- a\n- b", "apus.yaml:1: must be a mapping of keys"),
        ("log: {level: info", "apus.yaml:2: is not valid YAML: did not find expected ',' or '}'"),
        ("a: 1\na: 2", "apus.yaml:1: is not valid YAML: the key a is repeated"),
        ("dispatcher: {window: [{a: 1}]}", "apus.yaml:1: dispatcher.window must be a list of words"),
    ])
    func eachMistakeIsReportedWithItsPlaceAndItsRule(yaml: String, message: String) {
        #expect(mistakes(yaml) == [message])
    }

    @Test(arguments: ["unix:///run/redis@main/redis.sock", "rediss://h?ca=/etc/a@b.pem"])
    func `An at sign that ends no password may stand beside the file of one`(url: String) {
        #expect(mistakes("redis: {url: \"\(url)\", password_file: /etc/hostname}") == [])
    }

    @Test func `An address that breaks its rule is one mistake, whatever stands beside it`() {
        let beside = "ca_file: /etc/hostname, sentinel_password_file: /etc/hostname"
        let found = mistakes("redis: {url: \"https://h:6379\", \(beside)}")
        #expect(
            found.count == 1 && found.first?.hasPrefix("redis.url (apus.yaml:1): must be redis://host:port, ") == true
        )
    }

    @Test func `A password in the address is taken, is not shown, and stands there alone`() throws {
        let yaml = "redis: {url: \"redis://apus:hunter2@redis:6379\"}"
        #expect(mistakes(yaml) == [])
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        try yaml.write(toFile: "\(folder.path)/apus.yaml", atomically: true, encoding: .utf8)
        let source = SettingsSource(file: "\(folder.path)/apus.yaml", environment: [:])
        let survey = try source.survey(NoSettings.self, for: .dispatcher)
        let url = try #require(survey.readings.first { $0.key == "redis.url" })
        #expect(url.value == "redis://apus:(not shown)@redis:6379")
        let configuration = try RedisConfiguration(try source.loadRedis(), clientName: "test")
        #expect(configuration.username == "apus" && configuration.password == "hunter2")
        #expect(configuration.description == "redis://apus@redis:6379")

        let both = mistakes("redis: {url: \"redis://apus:hunter2@redis:6379\", password_file: /etc/hostname}")
        #expect(both.count == 1 && both[0].contains("without a password") && !both[0].contains("hunter2"))
    }

    @Test(arguments: ServiceName.allCases)
    func `A service checks and watches only the files that it reads`(service: ServiceName) throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let yaml = """
            apps:
              shop:
                apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: /nowhere/key.p8, topic: com.example.shop}
                auth: {jwt: {algorithm: es256, key_file: /nowhere/issuer.pem, audience: shop}}
            """
        let file = "\(folder.path)/apus.yaml"
        try yaml.write(toFile: file, atomically: true, encoding: .utf8)
        let survey = try SettingsSource(file: file, environment: [:]).survey(NoSettings.self, for: service)
        let expected: [ServiceName: [String]] = [
            .registration: ["apps.shop.auth.jwt.key_file"], .dispatcher: ["apps.shop.apns.key_file"], .feedback: [],
        ]
        let files = survey.mistakes.filter { $0.message.contains(": no such file or directory") }
        #expect(files.map(\.key) == expected[service], "\(survey.mistakes)")
        #expect(survey.mistakes.count == files.count, "\(survey.mistakes)")
    }

    @Test func allMistakesOfAnAppAreReportedAtOnce() {
        let yaml = """
            apps:
              shop:
                apns:
                  team_id: short
                  topic: "no spaces"
                  environments: [prod]
                  port: 0
                  rate_per_second: 0
                fcm:
                  base_url: http://insecure
                  rate_per_minute: many
                auth:
                  jwt:
                    algorithm: none
                    audience: shop
                  api_keys:
                    backend: {sha256: abc, role: root}
            """
        #expect(
            mistakes(yaml) == [
                "apps.shop.apns.team_id (apus.yaml:4): must be 10 characters A-Z and 0-9",
                "apps.shop.apns.key_id: is required",
                "apps.shop.apns.key_file: is required",
                "apps.shop.apns.topic (apus.yaml:5): must be a bundle id, such as com.example.shop",
                "apps.shop.apns.environments (apus.yaml:6): must be a list of production and sandbox",
                "apps.shop.apns.port (apus.yaml:7): must be a whole number from 1 to 65535",
                "apps.shop.apns.rate_per_second (apus.yaml:8): must be a whole number from 1 to 1000000000, or unlimited",
                "apps.shop.fcm.project_id: is required",
                "apps.shop.fcm.service_account_file: is required",
                "apps.shop.fcm.base_url (apus.yaml:10): must be an address that begins with https://",
                "apps.shop.fcm.rate_per_minute (apus.yaml:11): must be a whole number from 1 to 1000000000, or unlimited",
                "apps.shop.auth.jwt.algorithm (apus.yaml:14): must be one of es256, rs256, hs256",
                "apps.shop.auth.jwt.key_file: or jwks_file is required for es256, and secret_file must not be given",
                "apps.shop.auth.api_keys.backend.sha256 (apus.yaml:17): must be the SHA-256 of the key in 64 hexadecimal digits",
                "apps.shop.auth.api_keys.backend.role (apus.yaml:17): must be one of register, publish, admin",
            ]
        )
    }

    @Test func `Publishers have apps of the configuration, and names that are safe in keys`() throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        func write(_ publishers: String) throws -> String {
            try folder.write("apus.yaml", "apps: {shop: {}, blog: {}}\npublishers: \(publishers)\n")
        }
        let file = try write("{shop-1: {apps: [shop, blog]}, other-2x: {apps: [blog]}}")
        let source = SettingsSource(file: file, environment: [:])
        #expect(try source.survey(NoSettings.self, for: .dispatcher).mistakes == [])
        let found = try source.loadCommon().publishers
        #expect(found[try PublisherName("shop-1")]?.apps == [try AppID("shop"), try AppID("blog")])
        #expect(found[try PublisherName("other-2x")]?.apps == [try AppID("blog")])
        #expect(
            mistakes(
                """
                apps: {shop: {}}
                publishers:
                  a: {apps: [shpo]}
                  b: {}
                  c*: {apps: [shop]}
                  d: {apps: [shop], lanes: [bulk]}
                """
            ) == [
                "publishers.a.apps (apus.yaml:3): must be a list of apps that stand under apps: there is no such app there",
                "publishers.b.apps: is required: a list of apps, such as [shop]",
                "publishers.c* (apus.yaml:5): is not a valid publisher: must be 1 to 64 of the characters a-z, 0-9 and -",
                "publishers.c*.apps (apus.yaml:5): is not a known key",
                "publishers.d.lanes (apus.yaml:6): is not a known key",
            ]
        )
        let many = (0...PublisherSettings.countMax).map { "p\($0): {apps: [shop]}" }.joined(separator: ", ")
        #expect(
            mistakes("apps: {shop: {}}\npublishers: {\(many)}") == [
                "publishers (apus.yaml:2): must not have more than 64 publishers"
            ]
        )
    }

    @Test func whatIsWrongWithWebPushIsNamedByLine() throws {
        let yaml = """
            apps:
              shop:
                cors_origins: [https://shop.example, https://Shop.example, http://shop.example]
                webpush:
                  older_key_files: [/nowhere/old.pem]
                  public_key: abc
                  subject: ops@shop.example
                  hosts: [Push.Example]
                  connect_url: http://insecure
                  declarative: perhaps
                  connections: 0
            """
        #expect(
            mistakes(yaml) == [
                "apps.shop.webpush.key_file: is required",
                "apps.shop.webpush.older_key_files (apus.yaml:5): must be the path of a readable file: /nowhere/old.pem: no such file or directory",
                "apps.shop.webpush.public_key (apus.yaml:6): must be the 65 bytes of a public key on P-256, in base64url",
                "apps.shop.webpush.subject (apus.yaml:7): must be a mailto: or https: address of the operator, without spaces and <>, and not of localhost",
                "apps.shop.webpush.hosts (apus.yaml:8): must be a list of host names in lower case, without ports",
                "apps.shop.webpush.connect_url (apus.yaml:9): must be an address that begins with https://",
                "apps.shop.webpush.declarative (apus.yaml:10): must be true or false",
                "apps.shop.webpush.connections (apus.yaml:11): must be a whole number from 1 to 100",
                "apps.shop.cors_origins (apus.yaml:3): must be a list of origins, such as https://shop.example, in lower case; http is for localhost alone",
            ]
        )
    }

    @Test func `Whatever describes settings leaves out Redis' password`() throws {
        for url in [
            "redis://ann:canary@redis.example:6379", "redis+cluster://:canary@a,b", "unix://ann:canary@/run/redis",
        ] {
            let settings = try load("redis: {url: \"\(url)\"}")
            var dumped = ""
            dump(settings.common.redis, to: &dumped)
            for text in ["\(settings)", String(reflecting: settings), "\(settings.common.redis)", dumped] {
                #expect(!text.contains("canary"))
            }
        }
    }

    @Test func `An app's receipt streams have names, and are limited in number`() throws {
        func mistakes(naming streams: [String]) -> [String] {
            ApusServiceTests.mistakes("apps: {shop: {receipt_streams: [\(streams.joined(separator: ", "))]}}")
        }
        let most = (0..<32).map { "s-\($0)" }
        #expect(try load("apps: {shop: {receipt_streams: [\(most.joined(separator: ", "))]}}").common.apps.count == 1)
        let rule = "must be a list of up to 32 names of 1 to 64 of a-z, 0-9 and -"
        for streams in [most + ["one-more"], [String(repeating: "a", count: 65)], ["a:b"], ["A"], ["\"\""]] {
            #expect(mistakes(naming: streams) == ["apps.shop.receipt_streams (apus.yaml:1): \(rule)"])
        }
    }

    @Test func aSecretForAPublicKeyAlgorithmIsRefused() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("confusion.pem", "key")
        let yaml = "apps: {shop: {auth: {jwt: {algorithm: rs256, secret_file: \(key), audience: a}}}}"
        let rule = "or jwks_file is required for rs256, and secret_file must not be given"
        #expect(mistakes(yaml) == ["apps.shop.auth.jwt.key_file: \(rule)"])
        withExtendedLifetime(folder) {}
    }

    @Test func theEnvironmentIsCheckedToo() {
        #expect(
            mistakes(nil, ["APUS_DRAIN_TIMEOUT": "soon"]) == [
                "drain_timeout (APUS_DRAIN_TIMEOUT): must be a duration with a unit, such as 250ms, 10s, 5m or 2h"
            ]
        )
        #expect(
            mistakes(nil, ["APUS_REDIS_ULR": "x"]) == [
                "APUS_REDIS_ULR: is not a known variable; did you mean APUS_REDIS_URL?"
            ]
        )
        #expect(mistakes(nil, ["APUS_REGISTRATION_LISTEN": "for another service", "PATH": "/bin"]) == [])
    }

    @Test func whatKubernetesPutsInTheEnvironmentIsNoMistake() {
        #expect(
            mistakes(
                nil,
                [
                    "APUS_DISPATCHER_SERVICE_HOST": "10.0.0.1", "APUS_DISPATCHER_SERVICE_PORT_METRICS": "9102",
                    "APUS_DISPATCHER_PORT": "tcp://10.0.0.1:9102", "APUS_DISPATCHER_PORT_9102_TCP_ADDR": "10.0.0.1",
                ],
            ) == []
        )
    }

    @Test func aFileThatIsNotThereIsAMistake() {
        let source = SettingsSource(file: "/nowhere/apus.yaml", environment: [:])
        #expect(throws: SettingsError.self) { try source.load(NoSettings.self, for: .feedback) }
    }

    @Test func allMistakesMakeOneText() {
        let issues = [
            SettingsIssue(key: "a.b", place: "x.yaml:3", message: "is required"),
            SettingsIssue(key: "", place: "APUS_C", message: "is not a known variable"),
        ]
        #expect(
            SettingsError(issues: issues).description
                == "the configuration has 2 mistakes:\n  a.b (x.yaml:3): is required\n  APUS_C: is not a known variable"
        )
    }
}
