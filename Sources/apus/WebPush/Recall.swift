import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusProviderCommands
import ApusPublisher
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Takes back what a send has left at push services (`apus recall`).
struct Recall: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Take back a notification that was accepted and is not delivered yet.",
        discussion: """
            It knows the notifications of sends that named devices or users, as long as device histories are kept; without --device and \
            --user it looks for the send in the histories of all devices of the app, and says how many acceptances are in none. Mozilla's \
            push service deletes what it still holds; no other provider does. With --collapse-key, the collapse key of the notification, \
            the devices that nothing was recalled for get a message of that key, which replaces one that is undelivered. It shows nothing, \
            or with --title a title: Safari takes no messages that show nothing. What a dispatcher has not sent yet is stopped by apus \
            cancel. Exit code 2 when nothing was done for somebody.
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
    @Option(help: "The send's topic: the replacement goes to all of it, also to devices that nothing is known of.")
    var topic: String?
    @Option(help: "The title of the replacement. Without one it shows nothing, and Safari gets none.")
    var title: String?

    func validate() throws {
        guard self.title == nil || self.collapseKey != nil else {
            throw ValidationError("--title is that of a replacement: name its --collapse-key")
        }
        guard self.topic == nil || self.collapseKey != nil && self.devices.isEmpty && self.users.isEmpty else {
            throw ValidationError("--topic is that of a replacement: name its --collapse-key, and no devices or users")
        }
    }

    /// The result for each device, and the devices without one.
    private struct Report {
        var devices: [DeviceID] = []
        var results: [SendRecall.Result] = []
        /// The sends that replace the rest.
        var replacements: [String] = []
        var replaced: Set<DeviceID> = []
        var remarks: [String] = []

        /// The devices for which nothing was recalled.
        var rest: [DeviceID] {
            zip(self.devices, self.results).filter { $0.1 != .recalled && $0.1 != .gone }.map(\.0)
        }
    }

    func run() async throws {
        let access = try ProviderAccess(app: self.app, configuration: self.redis.settings())
        let report = try await RedisAccess.withInstallation(self.redis) { installation in
            try await installation.streams.audit.record(
                AuditEntry("send.recall", of: self.send, app: self.app.text, by: .shell)
            )
            return try await self.perform(SendRecall(access, installation, app: self.app, send: self.send))
        }
        let rows = zip(report.devices, report.results).map { id, result -> JSONValue in
            [
                "device": .string(id.text), "result": .string(result.text),
                "replaced": .bool(report.replaced.contains(id)),
            ]
        }
        self.output.write(
            [
                "devices": .array(rows), "replacements": .array(report.replacements.map { .string($0) }),
                "remarks": .array(report.remarks.map { .string($0) }),
            ],
            else: zip(report.devices, report.results).map { id, result in
                "\(id.text)  \(result.text)\(report.replaced.contains(id) ? ", replaced" : "")"
            } + report.replacements.map { "a replacement is the send \($0)" } + report.remarks,
        )
        guard report.remarks.isEmpty, report.replaced.isSuperset(of: report.rest) else {
            throw ExitCode(CommandExit.partlyFailed)
        }
    }

    private func perform(_ recall: SendRecall) async throws -> Report {
        var report = Report()
        if self.devices.isEmpty, self.users.isEmpty {
            let found = try await recall.find()
            report.devices = found.devices
            if self.topic == nil { report.remarks += [found.omission].compactMap(\.self) }
            guard !report.devices.isEmpty || found.acceptedCount != nil else {
                throw CommandFailure("nothing is known of a send \(self.send): no history and no ledger has it")
            }
        } else {
            report.devices = try await recall.devices(self.devices, users: self.users)
            guard !report.devices.isEmpty else { throw CommandFailure("these users have no devices") }
        }
        report.results = try await recall.run(report.devices)
        let rest = report.rest
        guard !rest.isEmpty || self.topic != nil else { return report }
        guard let collapseKey else {
            report.remarks.append(
                "what is not recalled can be replaced if the notification had a collapse key: --collapse-key"
            )
            return report
        }
        do {
            try await self.replace(rest, collapseKey, recall, &report)
        } catch {
            // The recall is done, and shown in any case.
            report.remarks.append("not everything was replaced: \(error)")
        }
        return report
    }

    /// Publishes what replaces the messages of devices, or of the topic: as many sends as so many devices need.
    private func replace(
        _ devices: [DeviceID],
        _ collapseKey: String,
        _ recall: SendRecall,
        _ report: inout Report,
    ) async throws {
        let refusing = self.title == nil ? try await recall.refusingSilence(devices) : []
        if !refusing.isEmpty {
            report.remarks.append(
                "Safari takes no messages that show nothing: \(refusing.count) of its browsers cannot be replaced without --title"
            )
        }
        let replaceable = devices.filter { !refusing.contains($0) }
        guard !replaceable.isEmpty || self.topic != nil else { return }
        try await RedisAccess.withPublisher(self.redis) { publisher in
            var rest = replaceable[...]
            repeat {
                let part = self.topic == nil ? rest.prefix(Limits.recipientsMax) : rest
                rest = rest.dropFirst(part.count)
                let target = self.topic.map { Target.topic($0) } ?? .devices(part.map(\.text))
                let command = recall.replacement(for: target, collapseKey: collapseKey, title: self.title)
                let publication = try await publisher.publish(publisher.recorded(command), lane: .express)
                report.replacements.append(publication.send)
                report.replaced.formUnion(part)
            } while !rest.isEmpty
        }
    }
}
