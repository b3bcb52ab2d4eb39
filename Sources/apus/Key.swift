import ApusCommand
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Manages the API keys of backends (`apus key`).
struct Key: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create, list and revoke API keys of backends.",
        discussion: """
            Redis stores only a digest. Services accept a new key, and refuse a revoked one, within a second. The \
            app must be in the services' configuration: create refuses one that no dispatcher, and no configuration \
            on this machine, has.
            """,
        subcommands: [Create.self, List.self, Revoke.self],
    )

    /// The app and name of the key.
    struct Name: ParsableArguments {
        @Option(help: "The app.", transform: Key.app)
        var app: AppID
        @Argument(help: "The key's name.")
        var name: String
    }

    static func app(_ text: String) throws -> AppID {
        do { return try AppID(text) } catch { throw ValidationError("\(error)") }
    }

    /// Creates a key (`apus key create`).
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a key, and show it once.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name
        @Option(
            help: "The role of its holder: register (devices), publish (sends), or admin (both).",
            completion: CommandWords.completion(APIKeyRole.self),
            transform: { try CommandWords.value($0, of: APIKeyRole.self, "--role") }
        )
        var role: APIKeyRole

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let (app, name, role) = (self.name.app, self.name.name, self.role)
                let now = SystemClock().now()
                try await KnownApps(installation.streams, configuration: self.redis.settings()).check(app)
                let key: String
                do {
                    try await installation.streams.audit.record(
                        AuditEntry("key.create", of: name, app: app.text, detail: "role \(role.rawValue)", by: .shell)
                    )
                    key = try await APIKeys(installation.client).create(app, name: name, role: role, now: now)
                } catch let refusal as APIKeys.Refusal {
                    throw CommandFailure("\(refusal)")
                }
                self.output.write(
                    [
                        "app": .string(app.text), "name": .string(name), "role": .string(role.rawValue),
                        "key": .string(key),
                    ],
                    else: [key],
                )
            }
        }
    }

    /// Lists keys (`apus key list`).
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List an app's keys.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "The app.", transform: Key.app)
        var app: AppID

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let keys = try await APIKeys(installation.client).list(self.app)
                // An app that has keys is known, whoever forgot it.
                if keys.isEmpty {
                    try await KnownApps(installation.streams, configuration: self.redis.settings())
                        .check(self.app)
                }
                var table = TextTable(["NAME", "ROLE", "CREATED", "SHA-256"])
                for key in keys {
                    let digest = Hexadecimal.encode(key.sha256.prefix(6))
                    table.add([key.name, key.role.rawValue, key.createdAt.timestamp, digest])
                }
                self.output.write(
                    [
                        "keys": .array(
                            keys.map { key in
                                [
                                    "name": .string(key.name), "role": .string(key.role.rawValue),
                                    "created_at_ms": .integer(key.createdAt.value),
                                    "sha256": .string(Hexadecimal.encode(key.sha256)),
                                ]
                            }
                        )
                    ],
                    else: table.isEmpty ? ["no keys"] : table.lines,
                )
            }
        }
    }

    /// Revokes a key (`apus key revoke`).
    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revoke a key.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let (app, name) = (self.name.app, self.name.name)
                try await installation.streams.audit.record(
                    AuditEntry("key.revoke", of: name, app: app.text, by: .shell)
                )
                guard try await APIKeys(installation.client).revoke(app, name: name) else {
                    throw CommandFailure("\(app) has no key \(name)")
                }
                self.output.write(
                    ["app": .string(app.text), "name": .string(name), "revoked": .bool(true)],
                    else: ["\(name)  revoked"],
                )
            }
        }
    }
}
