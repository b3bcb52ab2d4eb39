import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusProviderCommands
import ApusPublisher
import ArgumentParser

/// Takes back what a send has left at push services (`apus recall`).
struct Recall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Take back a notification that was accepted and is not delivered yet.",
        discussion: """
            It knows the notifications of sends that named devices or users, as long as device histories are kept. Mozilla's push service \
            deletes what it still holds; no other provider does. With --collapse-key, the collapse key of the notification, the devices \
            that nothing was recalled for get a message of that key that shows nothing: it replaces one that is undelivered. What a \
            dispatcher has not sent yet is stopped by apus cancel. Exit code 2 when nothing was done for a device.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app.", transform: { try AppID($0) })
    var app: AppID
    @Option(
        name: .customLong("device"),
        help: "A device of the send; may be repeated.",
        transform: { try DeviceID($0) }
    )
    var devices: [DeviceID] = []
    @Option(name: .customLong("user"), help: "A user of the send; may be repeated.", transform: { try UserID($0) })
    var users: [UserID] = []
    @Option(help: "The notification's collapse key, to replace what cannot be recalled.")
    var collapseKey: String?
    @Option(help: "The services' configuration. Default: $APUS_CONFIG, else /etc/apus/apus.yaml.")
    var config: String?

    func validate() throws {
        guard !self.devices.isEmpty || !self.users.isEmpty else {
            throw ValidationError("name the devices or users of the send: --device, --user")
        }
    }

    func run() async throws {
        let access = try ProviderAccess(app: self.app, configuration: self.config)
        let (ids, results, replacement) = try await RedisAccess.withInstallation(self.redis.url) { installation in
            let recall = SendRecall(access, installation, app: self.app, send: self.send)
            let ids = try await recall.devices(self.devices, users: self.users)
            guard !ids.isEmpty else { throw CommandFailure("these users have no devices") }
            let results = try await recall.run(ids)
            let rest = zip(ids, results).filter { $0.1 != .recalled && $0.1 != .gone }.map(\.0)
            guard let collapseKey, !rest.isEmpty else { return (ids, results, String?.none) }
            let command = recall.replacement(for: rest, collapseKey: collapseKey)
            let publication = try await RedisAccess.withPublisher(self.redis.url) {
                try await $0.publish(command, lane: .express)
            }
            return (ids, results, publication.send)
        }
        let rows = zip(ids, results).map { id, result -> JSONValue in
            ["device": .string(id.text), "result": .string(result.text)]
        }
        var json: JSONObject = ["devices": .array(rows)]
        if let replacement { json["replacement"] = .string(replacement) }
        self.output.write(
            json,
            else: zip(ids, results).map { "\($0.text)  \($1.text)" }
                + (replacement.map { ["the others are replaced by the send \($0)"] } ?? []),
        )
        let isDone = replacement != nil || results.allSatisfy { $0 == .recalled || $0 == .gone }
        guard isDone else { throw ExitCode(CommandExit.partlyFailed) }
    }
}
