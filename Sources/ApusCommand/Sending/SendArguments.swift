internal import ApusConsole
internal import ApusCore
package import ApusMessages
internal import ApusStore

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

    /// Creates empty arguments.
    package init() {}

    /// Reports arguments that are not valid together.
    package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The error's sentence.
        package let description: String
    }

    /// Returns the command for the arguments.
    package func command() throws(UsageError) -> SendCommand {
        do throws(IdentifierError) {
            _ = try AppID(self.app)
            if !self.id.isEmpty { _ = try SendID(self.id) }
        } catch {
            throw UsageError(description: "\(error)")
        }
        var notification = self.notification
        if !self.title.isEmpty { notification.title = self.title }
        if !self.body.isEmpty { notification.body = self.body }
        for pair in self.data {
            guard let equals = pair.firstIndex(of: "="), equals != pair.startIndex else {
                throw UsageError(description: "--data is key=value")
            }
            notification.data[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
        }
        if let ttl { notification.expiry = .ttl(milliseconds: try Self.milliseconds(ttl)) }
        if self.title.isEmpty, self.body.isEmpty, self.data.isEmpty, self.notification == Notification() {
            throw UsageError(description: "the notification is empty: give --title, --body, --data or --notification")
        }
        var command = SendCommand(app: self.app, target: try self.target(of: notification), notification: notification)
        command.id = self.id
        command.idempotencyKey = self.key
        return command
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

    private static func milliseconds(_ text: String) throws(UsageError) -> Int64 {
        guard let value = DurationText.milliseconds(text) else {
            throw UsageError(description: "--ttl is \(DurationText.form)")
        }
        return value
    }
}

extension Notification {
    /// The kind of token that the notification goes to at a provider with a token for each service.
    fileprivate var tokenKind: TokenKind {
        switch self.kind {
        case .alert, .background, .complication, .fileProvider, .mdm, .location: .device
        case .voip: .voip
        case .liveActivity: self.liveActivity?.event == .start ? .liveActivityStart : .liveActivityUpdate
        case .pushToTalk: .pushToTalk
        case .widgets: .widgets
        case .controls: .controls
        }
    }
}
