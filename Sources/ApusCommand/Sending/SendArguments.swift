package import ApusCore
internal import ApusInstallation
package import ApusMessages
internal import ApusProviders
internal import ApusStore
internal import ApusTerminal

/// Converts the arguments of `apus send` to a command.
package struct SendArguments: Hashable, Sendable {
    /// The app.
    package var app = ""
    /// Devices by id.
    package var devices: [String] = []
    /// Users by id.
    package var users: [String] = []
    /// The addresses as `provider:token`, or `apns-sandbox:token`. Each is of the kind that the notification goes to.
    package var addresses: [String] = []
    /// A topic.
    package var topic: String?
    /// A condition over topics.
    package var condition: String?
    /// An audience expression.
    package var audience: String?
    /// A topic that the provider holds.
    package var fcmTopic: String?
    /// A condition over topics that the provider holds.
    package var fcmCondition: String?
    /// The notification key of a device group, which the provider holds.
    package var fcmGroup: String?
    /// True for a send to all devices.
    package var everyone = false
    /// The further content of the notification.
    package var notification = Notification()
    /// The title.
    package var title = ""
    /// The body.
    package var body = ""
    /// The data as `key=value`.
    package var data: [String] = []
    /// The time to live, such as `30s`, `5m`, `2h`, `1d`; a number without unit is in seconds.
    package var ttl: String?
    /// The send's id; when empty, one is created.
    package var id = ""
    /// The idempotency key.
    package var key = ""
    /// The start: a time by RFC 3339, or a duration from now such as `2h`.
    package var notBefore: String?
    /// The maximum of recipients per second; 0 for as many as the routes allow.
    package var ratePerSecond: UInt32 = 0
    /// The treatment of a notification with an unknown outcome.
    package var delivery = SendCommand.Delivery.atLeastOnce
    /// The receipts that are written.
    package var receipts = SendCommand.ReceiptLevel.summary
    /// The stream of its receipts; empty for the shard's own.
    package var replyTo = ""

    /// Creates empty arguments.
    package init() {}

    /// Reports arguments that are not valid together.
    package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The error's sentence.
        package let description: String
    }

    /// Returns the command for the arguments, which keeps the rules of all commands.
    package func command(now: UnixMilliseconds) throws(UsageError) -> SendCommand {
        var notification = self.notification
        if !self.title.isEmpty { notification.title = self.title }
        if !self.body.isEmpty { notification.body = self.body }
        for pair in self.data {
            guard let equals = pair.firstIndex(of: "="), equals != pair.startIndex else {
                throw UsageError(description: "--data is key=value")
            }
            notification.data[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
        }
        if let ttl {
            guard let milliseconds = DurationText.milliseconds(ttl) else {
                throw UsageError(description: "--ttl is \(DurationText.form)")
            }
            notification.expiry = .ttl(milliseconds: milliseconds)
        }
        if self.title.isEmpty, self.body.isEmpty, self.data.isEmpty, self.notification == Notification() {
            throw UsageError(description: "the notification is empty: give --title, --body or --notification")
        }
        var command = SendCommand(app: self.app, target: try self.target(of: notification), notification: notification)
        command.id = self.id
        command.idempotencyKey = self.key
        command.notBefore = try self.start(now: now)
        command.ratePerSecond = self.ratePerSecond
        command.delivery = self.delivery
        command.receiptLevel = self.receipts
        command.replyTo = self.replyTo
        do throws(Problem) {
            try SendCommandRules.check(command)
            try ProviderList.installed.check(command.target)
            try NotificationRules.check(command.notification)
            try SendCommandRules.checkWorth(of: command, now: now)
        } catch {
            throw UsageError(description: "\(self.option(of: error.field)): \(error.detail)")
        }
        return command
    }

    /// Returns the sentence that tells how to publish the command of these arguments again without a second send.
    package func adviceOnRepeating(_ command: SendCommand) -> String {
        var options: [String] = []
        if self.id.isEmpty, self.key.isEmpty { options.append("--id \(command.id)") }
        // A duration from now would be another time, and the command another one.
        if let notBefore, DurationText.milliseconds(notBefore) != nil, let start = command.notBefore {
            options.append("--not-before \(Self.text(of: start))")
        }
        guard !options.isEmpty else { return "It is safe to repeat this as it is" }
        return "It is safe to repeat this with \(options.joined(separator: " "))"
    }

    /// Returns a time by RFC 3339 with its milliseconds.
    package static func text(of time: UnixMilliseconds) -> String {
        let fraction = String(1_000 + time.value % 1_000).dropFirst()
        return "\(time.timestamp.dropLast()).\(fraction)Z"
    }

    private func start(now: UnixMilliseconds) throws(UsageError) -> UnixMilliseconds? {
        guard let notBefore else { return nil }
        if let milliseconds = DurationText.milliseconds(notBefore) { return now.advanced(byMilliseconds: milliseconds) }
        guard let time = UnixMilliseconds(timestamp: notBefore) else {
            let form = "a time such as 2026-11-21T09:30:00Z, or a duration from now such as 90s, 5m, 2h or 1d"
            throw UsageError(description: "--not-before is \(form)")
        }
        return time
    }

    /// The options by the fields of a command that they set; a field's parts are those of its option.
    private static let options: [(field: String, option: String)] = [
        ("target.addresses", "--address"), ("target.devices", "--device"), ("target.users", "--user"),
        ("target.topic", "--topic"), ("target.condition", "--condition"), ("target.expression", "--audience"),
        ("target.fcm_topic", "--fcm-topic"), ("target.fcm_condition", "--fcm-condition"),
        ("target.fcm_group", "--fcm-group"), ("not_before_ms", "--not-before"), ("reply_to", "--reply-to"),
        ("app", "--app"), ("id", "--id"), ("notification.ttl_ms", "--ttl"), ("notification", "--notification"),
    ]

    private func option(of field: String) -> String {
        // These replace the texts of --notification.
        if field == "notification.title", !self.title.isEmpty { return "--title" }
        if field == "notification.body", !self.body.isEmpty { return "--body" }
        guard let (prefix, option) = Self.options.first(where: { field.hasPrefix($0.field) }) else { return field }
        let rest = field.dropFirst(prefix.count).drop { $0 == "." }
        return rest.isEmpty ? option : "\(option) \(rest)"
    }

    private func target(of notification: Notification) throws(UsageError) -> Target {
        var targets: [Target] = []
        if !self.devices.isEmpty { targets.append(.devices(self.devices)) }
        if !self.users.isEmpty { targets.append(.users(self.users)) }
        if !self.addresses.isEmpty {
            var addresses: [Address] = []
            for text in self.addresses { addresses.append(try Self.address(text, of: notification)) }
            targets.append(.addresses(addresses))
        }
        if let topic { targets.append(.topic(topic)) }
        if let condition { targets.append(.condition(condition)) }
        if let audience { targets.append(.expression(audience)) }
        if self.everyone { targets.append(.everyone([])) }
        if let fcmTopic { targets.append(.fcmTopic(fcmTopic)) }
        if let fcmCondition { targets.append(.fcmCondition(fcmCondition)) }
        if let fcmGroup { targets.append(.fcmGroup(fcmGroup)) }
        guard let target = targets.first, targets.count == 1 else {
            let kinds =
                "--topic, --device, --user, --address, --condition, --audience, --everyone, --fcm-topic, --fcm-condition or --fcm-group"
            throw UsageError(description: "give exactly one kind of target: \(kinds)")
        }
        return target
    }

    private static func address(_ text: String, of notification: Notification) throws(UsageError) -> Address {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[1].isEmpty else { throw UsageError(description: "--address is provider:token") }
        guard let realm = Realm.allCases.first(where: { $0.name == parts[0] }) else {
            let names = Realm.allCases.map { "\($0.name):" }
            let list = "\(names.dropLast().joined(separator: ", ")) or \(names[names.count - 1])"
            throw UsageError(description: "--address begins with \(list)")
        }
        var address = Address(provider: realm.provider, token: parts[1])
        address.environment = realm.environment
        let kind = notification.tokenKind
        if realm.provider.traits.tokenKinds.contains(kind) { address.kind = kind }
        return address
    }
}
