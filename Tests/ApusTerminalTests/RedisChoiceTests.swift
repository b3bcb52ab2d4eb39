import ApusCore
import ApusRedis
import ApusService
import ApusTerminal
import ApusTestKit
import Foundation
import Testing

/// Tests which Redis a command uses, and with whose user.
@Suite struct RedisChoiceTests {
    private let folder: TemporaryFolder
    private let config: String
    private var environment: [String: String]

    init() throws {
        self.folder = try TemporaryFolder()
        self.config = "\(self.folder.path)/apus.yaml"
        self.environment = ["XDG_CONFIG_HOME": self.folder.path]
        try "hunter2\n".write(toFile: "\(self.folder.path)/password", atomically: true, encoding: .utf8)
        let yaml = """
            redis: {url: "rediss://config:6380", user: apus, password_file: \(self.folder.path)/password, ca_file: /etc/hostname}
            dispatcher: {unknown_to_commands: 1}
            """
        try yaml.write(toFile: self.config, atomically: true, encoding: .utf8)
        var file = try ContextFile(environment: self.environment)
        for name in ["staging", "production"] {
            var context = InstallationContext()
            context.redis = "redis://\(name):secret@\(name):6379"
            file.contexts[name] = context
        }
        file.contexts["ours"] = InstallationContext()
        file.contexts["ours"]?.config = self.config
        file.current = "staging"
        try file.save()
    }

    private func choice(
        redis: String? = nil,
        context: String? = nil,
        config: String? = nil,
        _ more: [String: String] = [:],
    ) throws -> RedisChoice {
        let environment = self.environment.merging(more) { $1 }
        return try RedisChoice(redis: redis, context: context, config: config, environment: environment)
    }

    private func place(_ choice: RedisChoice) throws -> String { try choice.configuration().description }

    @Test func `The nearest of option, configuration, context and environment names Redis`() throws {
        #expect(try self.place(self.choice()) == "redis://staging@staging:6379")
        #expect(try self.choice().origin == "the context staging")
        #expect(try self.place(self.choice(context: "production")) == "redis://production@production:6379")
        #expect(try self.place(self.choice(["APUS_CONTEXT": "production"])) == "redis://production@production:6379")
        let variable = ["APUS_REDIS_URL": "redis://variable:6379", "APUS_CONTEXT": "production"]
        #expect(try self.place(self.choice(variable)) == "redis://variable:6379")
        #expect(try self.choice(variable).origin == "APUS_REDIS_URL")
        #expect(try self.place(self.choice(context: "staging", variable)) == "redis://staging@staging:6379")
        let named = try self.choice(config: self.config, variable)
        #expect(try self.place(named) == "rediss://apus@config:6380" && named.origin == self.config)
        let placeless = try self.folder.write("placeless.yaml", "log: {level: info}\n")
        #expect(try self.place(self.choice(config: placeless, variable)) == "redis://variable:6379")
        #expect(try self.place(self.choice(redis: "redis://option:6379", variable)) == "redis://option:6379")
    }

    @Test func `A configuration names user, password and CA as for the services, and the environment goes over it`()
        throws
    {
        for choice in [
            try self.choice(config: self.config), try self.choice(context: "ours"),
            try self.choice(["APUS_CONFIG": self.config]),
        ] {
            let configuration = try choice.configuration()
            #expect(configuration.username == "apus" && configuration.password == "hunter2")
            #expect(configuration.tls?.certificateAuthorityFile == "/etc/hostname")
            #expect(choice.settings.file == self.config)
        }
        let other = ["APUS_CONFIG": self.config, "APUS_REDIS_URL": "rediss://other:6380"]
        #expect(try self.place(self.choice(other)) == "rediss://apus@other:6380")
    }

    @Test func `The user of the environment goes to the file's Redis, unless it stands beside another address`() throws
    {
        let password = try self.folder.write("other", "secret\n")
        var variables = ["APUS_REDIS_USER": "operator", "APUS_REDIS_PASSWORD_FILE": password]
        let alone = try self.choice(config: self.config, variables)
        let configuration = try alone.configuration()
        #expect(configuration.username == "operator" && configuration.password == "secret" && alone.note == nil)
        variables["APUS_REDIS_URL"] = "rediss://other:6380"
        let beside = try self.choice(config: self.config, variables)
        let own = try beside.configuration()
        #expect(own.username == "apus" && own.password == "hunter2" && own.description == "rediss://apus@config:6380")
        #expect(beside.note == "APUS_REDIS_URL is not used: the address is from \(self.config)")
        // Services read both, and the environment first.
        #expect(beside.settings.environment["APUS_REDIS_URL"] == "rediss://other:6380")
        variables["APUS_REDIS_URL"] = "rediss://config:6380"
        let same = try self.choice(config: self.config, variables)
        let both = try same.configuration()
        #expect(same.note == nil && both.username == "operator" && both.password == "secret")
        #expect(try self.choice(variables).note == nil)
    }

    @Test func `Beside another installation's Redis no configuration is read that it does not name`() throws {
        let variables = ["APUS_CONFIG": "/somewhere/apus.yaml", "APUS_FEEDBACK_UNDO_WINDOW": "0s"]
        let none = SettingsSource(file: nil, environment: [:])
        let here = try self.choice(variables)
        #expect(here.settings.file == "/somewhere/apus.yaml" && here.cure.contains("with --config"))
        #expect(here.settings.environment["APUS_FEEDBACK_UNDO_WINDOW"] == "0s")
        #expect(try self.choice(redis: "redis://option:6379", variables).settings == none)
        let given = try self.choice(redis: "redis://option:6379", config: self.config, variables).settings
        #expect(given.file == self.config && given.environment["APUS_FEEDBACK_UNDO_WINDOW"] == "0s")
        let staging = try self.choice(context: "staging", variables)
        // With --config it would be another Redis.
        #expect(staging.settings == none && staging.cure.contains("apus context add staging … --config FILE"))
        let ours = SettingsSource(file: self.config, environment: [:])
        #expect(try self.choice(context: "ours", variables).settings == ours)
    }

    @Test func `An address on the command line gets nobody else's password, and the CA that is known`() throws {
        let configuration = try self.choice(redis: "rediss://option:6380", config: self.config).configuration()
        #expect(configuration.username == nil && configuration.password == nil)
        #expect(configuration.tls?.certificateAuthorityFile == "/etc/hostname")
    }

    @Test func `A missing context, a missing file and two installations are named with the cure`() throws {
        func said(_ body: () throws -> Void) -> String {
            do { try body() } catch { return "\(error)" }
            return ""
        }
        let absent = said { _ = try self.choice(context: "nowhere") }
        #expect(absent == "there is no context nowhere; there are: ours, production, staging")
        #expect(said { _ = try self.choice(redis: "redis://a", context: "ours") }.contains("give one of them"))
        let file = said { _ = try self.choice(config: "/nowhere/apus.yaml").configuration() }
        #expect(file == "/nowhere/apus.yaml: cannot be read: no such file or directory")
        let password = [
            "APUS_REDIS_USER": "a", "APUS_REDIS_PASSWORD_FILE": "/nowhere/password", "APUS_REDIS_URL": "redis://b",
        ]
        #expect(
            said { _ = try self.choice(password).configuration() }.contains(
                "/nowhere/password: no such file or directory"
            )
        )
    }

    @Test func `The file of contexts is its owner's alone, and is read again as it was written`() throws {
        let path = ContextFile.path(environment: self.environment)
        #expect(path == "\(self.folder.path)/apus/contexts.json")
        #expect(ContextFile.path(environment: ["HOME": "/home/ada"]) == "/home/ada/.config/apus/contexts.json")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let file = try ContextFile(environment: self.environment)
        #expect(file.current == "staging" && file.contexts.keys.sorted() == ["ours", "production", "staging"])
        #expect(file.contexts["staging"]?.shownRedis == "redis://staging@staging:6379")
        try "{".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(throws: CommandFailure.self) { _ = try ContextFile(environment: self.environment) }
    }
}
