import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusRegistration
import ApusStore
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Shows and changes devices, bypassing the registration service (`apus device`).
struct Device: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show and change devices.",
        subcommands: [Get.self, History.self, Put.self, Remove.self, Restore.self, ImportTokens.self],
    )

    /// The app and id of the device.
    struct Name: ParsableArguments {
        @Option(help: "The app.")
        var app: String
        @Argument(help: "The device's id.")
        var device: String

        func validate() throws {
            do {
                _ = try (AppID(self.app), DeviceID(self.device))
            } catch {
                throw ValidationError("\(error)")
            }
        }
    }

    /// Shows a device (`apus device get`).
    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show a device.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name
        @Flag(help: "Show the token instead of its digest.")
        var showToken = false

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let app = try AppID(self.name.app)
                guard let device = try await installation.store.get(app, DeviceID(self.name.device)) else {
                    throw CommandFailure("\(self.name.app) has no device \(self.name.device)")
                }
                let topics = try await installation.store.topicNames(app, device.record.topics)
                let description = DeviceDescription(
                    device,
                    topics: topics.compactMap { $0?.text },
                    showsToken: self.showToken,
                )
                self.output.write(description.json, else: description.lines)
            }
        }
    }

    /// Registers a device (`apus device put`).
    struct Put: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Register a device, or replace its registration.",
            discussion: "Topics and attributes are kept when none are given; the owner is removed unless given.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name
        @Option(
            help: "The provider: \(Provider.nameList).",
            completion: .list(Provider.allCases.map(\.name)),
            transform: Self.provider
        )
        var provider: Provider
        @Option(help: "The token, as the app received it.")
        var token: String
        @Flag(help: "The token is of the provider's sandbox.")
        var sandbox = false
        @Option(help: "The user who owns the device.")
        var user = ""
        @Option(name: .customLong("topic"), help: "A topic; may be repeated.")
        var topics: [String] = []
        @Option(help: "The language, BCP 47.")
        var locale = ""
        @Option(
            name: .customLong("webpush-p256dh"),
            help: "Web Push: the subscription's key p256dh, in base64url.",
            transform: Self.bytes,
        )
        var p256dh: [UInt8] = []
        @Option(
            name: .customLong("webpush-auth"),
            help: "Web Push: the subscription's secret auth, in base64url.",
            transform: Self.bytes,
        )
        var auth: [UInt8] = []
        @Option(help: "Web Push: the key that the browser subscribed with, in base64url.", transform: Self.bytes)
        var applicationServerKey: [UInt8] = []
        @Option(
            name: .customLong("webpush-host"),
            help: """
                A host of Web Push endpoints besides those of the known push services and of the configuration's webpush.hosts; may \
                be repeated.
                """,
        )
        var endpointHosts: [String] = []

        static func bytes(_ text: String) throws -> [UInt8] {
            guard let bytes = Base64URL.decode(text) else { throw ValidationError("must be base64url") }
            return bytes
        }

        static func provider(_ name: String) throws -> Provider {
            try CommandWords.value(name, of: Provider.allCases.map { ($0.name, $0) }, "--provider")
        }

        func run() async throws {
            var registration = DeviceRegistration(
                device: self.name.device,
                provider: self.provider,
                token: self.token,
            )
            registration.environment = self.sandbox ? .sandbox : .production
            registration.user = self.user
            registration.attributes.locale = self.locale
            registration.topics = self.topics.isEmpty ? nil : self.topics
            registration.webpushP256DH = self.p256dh
            registration.webpushAuth = self.auth
            registration.applicationServerKey = self.applicationServerKey
            let app = try AppID(self.name.app)
            let configured = ConfigurationAccess.endpointHosts(of: app, in: try self.redis.settings())
            let hosts = EndpointHosts(further: configured + self.endpointHosts)
            if let mistake = RegistrationRules.mistake(in: registration, hosts: hosts) {
                throw CommandFailure("the device cannot be registered: \(mistake)")
            }
            try await RedisAccess.withInstallation(self.redis) { installation in
                try await KnownApps(installation.streams, configuration: self.redis.settings()).check(app)
                try await installation.streams.audit.record(
                    AuditEntry("device.put", of: self.name.device, app: app.text, by: .shell)
                )
                let result = try await installation.withGuardedStore { try await $0.register(app, registration) }
                let change = Self.word(result.change)
                if let displaced = result.device.displaced {
                    Console.message(
                        "\(self.user) has \(StoreLimits.devicesPerUserMax) devices, the most that a user may have: \(displaced), seen "
                            + "longest ago, is no longer among them. Delete it if it is not used: apus device rm"
                    )
                }
                self.output.write(
                    [
                        "device": .string(self.name.device), "change": .string(change),
                        "displaced_device": result.device.displaced.map { .string($0) } ?? .null,
                    ],
                    else: ["\(self.name.device)  \(change)"],
                )
            }
        }

        private static func word(_ change: RegisterResult.Change) -> String {
            switch change {
            case .created: "created"
            case .updated: "updated"
            case .unchanged: "unchanged"
            case .tokenReplaced: "token_replaced"
            case .ignored: "ignored"
            }
        }
    }

    /// Deletes a device (`apus device rm`).
    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Delete a device.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let (app, device) = (try AppID(self.name.app), try DeviceID(self.name.device))
                try await installation.streams.audit.record(
                    AuditEntry("device.forget", of: device.text, app: app.text, by: .shell)
                )
                let result = try await installation.store.delete(app, device)
                let word =
                    switch result {
                    case .deleted: "deleted"
                    case .ignored: "ignored"
                    case .missing: "missing"
                    }
                self.output.write(
                    ["device": .string(self.name.device), "change": .string(word)],
                    else: ["\(self.name.device)  \(word)"],
                )
            }
        }
    }
}
