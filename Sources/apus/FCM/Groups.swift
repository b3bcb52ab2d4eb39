import ApusCommand
import ApusCore
import ApusFCM
import ApusProviderCommands
import ApusTerminal
import ArgumentParser

/// Manages FCM's device groups (`apus groups`).
struct Groups: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Change FCM's device groups: up to twenty devices of one user, reached by one key.",
        discussion: "apus send --fcm-group KEY sends to one; FCM gives one outcome for all of its devices.",
        subcommands: [Create.self, Add.self, Remove.self, Show.self],
    )

    /// The group, and the access to FCM.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Option(help: "The name of the group, unique in the project.")
        var name: String
        @Option(help: "The number of the project: Google's console calls it sender id.")
        var senderID: String
        @OptionGroup var services: ConfigurationOptions

        func validate() throws {
            guard !self.name.isEmpty else { throw ValidationError("--name is empty") }
            guard !self.senderID.isEmpty, self.senderID.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw ValidationError("--sender-id is the project's number, not its id")
            }
        }
    }

    /// The members of a change.
    struct Members: ParsableArguments {
        @Argument(help: "Registration tokens, twenty at most.")
        var tokens: [String]

        func validate() throws {
            guard self.tokens.count <= DeviceGroups.membersMax, !self.tokens.contains("") else {
                throw ValidationError("give 1 to \(DeviceGroups.membersMax) tokens, none empty")
            }
        }
    }

    /// Creates a group (`apus groups create`).
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Create a group, and show its key.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @OptionGroup var members: Members

        func run() async throws { try await Groups.change(.create, self.members, self.place, self.output) }
    }

    /// Adds members (`apus groups add`).
    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add devices to a group.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @OptionGroup var members: Members

        func run() async throws { try await Groups.change(.add, self.members, self.place, self.output) }
    }

    /// Removes members (`apus groups remove`).
    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove devices from a group; without any it is deleted.",
        )

        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @OptionGroup var members: Members

        func run() async throws { try await Groups.change(.remove, self.members, self.place, self.output) }
    }

    /// Shows the key of a group (`apus groups show`).
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the key of a group.")

        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place

        func run() async throws {
            let access = try ProviderAccess(app: self.place.app, configuration: self.place.services.settings())
            let key = try await access.groupKey(of: self.place.name, sender: self.place.senderID)
            self.output.write(["notification_key": .string(key)], else: [key])
        }
    }

    private static func change(
        _ verb: FCMGroupChange.Verb,
        _ members: Members,
        _ place: Place,
        _ output: OutputOptions,
    ) async throws {
        let access = try ProviderAccess(app: place.app, configuration: place.services.settings())
        let change = FCMGroupChange(verb, name: place.name, tokens: members.tokens)
        let key = try await access.change(change, sender: place.senderID)
        output.write(["notification_key": .string(key)], else: [key])
    }
}
