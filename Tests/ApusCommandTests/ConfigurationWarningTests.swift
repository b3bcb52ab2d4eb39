import ApusBuiltInProviders
import ApusCommand
import ApusService
import ApusTestKit
import Foundation
import Testing

@Suite struct ConfigurationWarningTests {
    /// Writes files with permission bits, and checks a configuration that may name them as FOLDER.
    private static func warnings(
        _ yaml: String,
        files: [String: Int] = [:],
        configurationMode: Int = 0o600,
        environment: [String: String] = [:],
    ) throws -> [ConfigurationWarning] {
        BuiltInProviders.install()
        let folder = try TemporaryDirectory.make("apus-warnings")
        defer { TemporaryDirectory.remove(folder) }
        for (name, mode) in files {
            try "s".write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: "\(folder)/\(name)")
        }
        let file = "\(folder)/apus.yaml"
        try yaml.replacing("FOLDER", with: folder).write(toFile: file, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: configurationMode], ofItemAtPath: file)
        return ConfigurationCheck(SettingsSource(file: file, environment: environment)).warnings
    }

    private static let apps = """
        redis: {url: "rediss://127.0.0.1:6380", user: apus, password_file: FOLDER/password, ca_file: FOLDER/ca}
        apps:
          demo:
            apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: FOLDER/key, topic: com.example.demo}
            webpush: {key_file: FOLDER/vapid, older_key_files: [FOLDER/old, FOLDER/older], subject: "mailto:a@example.com"}
            auth: {jwt: {algorithm: es256, key_file: FOLDER/public, audience: demo}}
        """

    @Test func `Secret files that other users may read or change are named with their mode`() throws {
        let sound = [
            "password": 0o600, "ca": 0o644, "key": 0o640, "vapid": 0o400, "old": 0o600, "older": 0o440, "public": 0o644,
        ]
        #expect(try Self.warnings(Self.apps, files: sound).isEmpty)
        let exposed = ["password": 0o644, "key": 0o604, "vapid": 0o620, "old": 0o600, "older": 0o666]
        let warnings = try Self.warnings(Self.apps, files: sound.merging(exposed) { $1 })
        #expect(
            warnings.map(\.key) == [
                "redis.password_file", "apps.demo.apns.key_file", "apps.demo.webpush.key_file",
                "apps.demo.webpush.older_key_files",
            ]
        )
        let details = warnings.map(\.detail)
        try #require(details.count == 4)
        #expect(details[0].hasSuffix("/password, which other users may read (mode 0644)"))
        #expect(details[1].hasSuffix("/key, which other users may read (mode 0604)"))
        #expect(details[2].hasSuffix("/vapid, which other users may change (mode 0620)"))
        #expect(details[3].hasSuffix("/older, which other users may read and change (mode 0666)"))
    }

    @Test func `A certificate's file is secret unless another file holds its key`() throws {
        func apns(_ more: String) -> String {
            "apps: {demo: {apns: {certificate_file: FOLDER/cert, \(more)topic: com.example.demo}}}"
        }
        let files = ["cert": 0o644, "key": 0o600]
        #expect(try Self.warnings(apns(""), files: files).map(\.key) == ["apps.demo.apns.certificate_file"])
        #expect(try Self.warnings(apns("certificate_key_file: FOLDER/key, "), files: files).isEmpty)
    }

    @Test func `A password in the address of Redis makes the configuration a secret file`() throws {
        let yaml = "redis: {url: \"redis://:hunter2@127.0.0.1:6379\"}"
        #expect(try Self.warnings(yaml).isEmpty)
        let warnings = try Self.warnings(yaml, configurationMode: 0o644)
        #expect(warnings.map(\.key) == ["redis.url"])
        #expect(warnings.first?.detail.hasSuffix("/apus.yaml, which other users may read (mode 0644)") == true)
        #expect(warnings.allSatisfy { !$0.line.contains("hunter2") })
        let variable = ["APUS_REDIS_URL": "redis://:hunter2@127.0.0.1:6379"]
        #expect(try Self.warnings("log: {level: info}", configurationMode: 0o644, environment: variable).isEmpty)
    }

    @Test(arguments: [
        ("redis://127.0.0.1:6379", 0), ("redis://localhost:6379", 0), ("redis://[::1]:6379", 0), ("unix:///tmp/s", 0),
        ("redis://redis.example:6379", 2), ("rediss://redis.example:6379", 1), ("redis://:p@redis.example:6379", 1),
        ("rediss://:p@redis.example:6379", 0), ("redis+cluster://127.0.0.1:7000,10.0.0.1:7000", 2),
    ])
    func `Redis beyond this machine should have TLS and a password`(_ url: String, _ count: Int) throws {
        let warnings = try Self.warnings("redis: {url: \"\(url)\"}")
        #expect(warnings.count == count && warnings.allSatisfy { $0.key == "redis.url" }, "\(warnings)")
    }

    @Test func `Ports that answer beyond this machine without TLS are named`() throws {
        let warnings = try Self.warnings("{admin: {listen: \":9102\"}, registration: {listen: \"[::]:8180\"}}")
        #expect(Set(warnings.map(\.key)) == ["admin.listen", "registration.listen"])
        let certificate = "certificate_file: FOLDER/cert, key_file: FOLDER/key"
        let files = ["cert": 0o644, "key": 0o600, "ca": 0o644]
        let own = try Self.warnings("admin: {listen: \":9102\", tls: {\(certificate)}}", files: files)
        #expect(own.map(\.key) == ["admin.listen"] && own.allSatisfy { !$0.detail.contains("without TLS") }, "\(own)")
        let clients = "admin: {listen: \":9102\", tls: {\(certificate), client_ca_file: FOLDER/ca}}"
        #expect(try Self.warnings(clients, files: files).isEmpty)
        #expect(
            try Self.warnings(clients, files: ["cert": 0o644, "key": 0o644, "ca": 0o644]).map(\.key) == [
                "admin.tls.key_file"
            ]
        )
        let local = "{admin: {listen: \"127.0.0.1:9102\"}, registration: {listen: \"[::1]:8180\"}}"
        #expect(try Self.warnings(local).isEmpty)
    }
}
