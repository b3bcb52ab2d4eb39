internal import ApusConsole
internal import ApusCore
package import ApusMessages
internal import ApusStore

/// The arguments of `apus send`, turned into a command to publish.
package struct SendArguments: Hashable, Sendable {
    /// The app.
    package var app = ""
    /// Devices by id.
    package var devices: [String] = []
    /// Users by id.
    package var users: [String] = []
    /// `provider:token`, or `apns-sandbox:token`.
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
    /// True when all devices are meant.
    package var everyone = false
    /// What is said besides, or instead of what follows.
    package var notification = Notification()
    /// Headline.
    package var title = ""
    /// Text.
    package var body = ""
    /// `key=value`.
    package var data: [String] = []
    /// `30s`, `5m`, `2h`, `1d`; a bare number is seconds.
    package var ttl: String?
    /// The send's id; empty: made.
    package var id = ""
    /// The idempotency key.
    package var key = ""

    /// Creates an order that says nothing yet.
    package init() {}

    /// What is wrong with an order.
    package struct Misuse: Error, Hashable, Sendable, CustomStringConvertible {
        /// The sentence.
        package let description: String
    }

    /// The command that is ordered.
    package func command() throws(Misuse) -> SendCommand {
        do throws(IdentifierError) {
            _ = try AppID(self.app)
            if !self.id.isEmpty { _ = try SendID(self.id) }
        } catch {
            throw Misuse(description: "\(error)")
        }
        var notification = self.notification
        if !self.title.isEmpty { notification.title = self.title }
        if !self.body.isEmpty { notification.body = self.body }
        for pair in self.data {
            guard let equals = pair.firstIndex(of: "="), equals != pair.startIndex else {
                throw Misuse(description: "--data is key=value")
            }
            notification.data[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
        }
        if let ttl { notification.expiry = .ttl(milliseconds: try Self.milliseconds(ttl)) }
        if self.title.isEmpty, self.body.isEmpty, self.data.isEmpty, self.notification == Notification() {
            throw Misuse(description: "there is nothing to send: give --title, --body, --data or --notification")
        }
        var command = SendCommand(app: self.app, target: try self.target(), notification: notification)
        command.id = self.id
        command.idempotencyKey = self.key
        return command
    }

    private func target() throws(Misuse) -> Target {
        var targets: [Target] = []
        if !self.devices.isEmpty { targets.append(.devices(self.devices)) }
        if !self.users.isEmpty { targets.append(.users(self.users)) }
        if !self.addresses.isEmpty {
            var addresses: [Address] = []
            for text in self.addresses { addresses.append(try Self.address(text)) }
            targets.append(.addresses(addresses))
        }
        if let topic { targets.append(.topic(topic)) }
        if let condition { targets.append(.condition(condition)) }
        if let audience { targets.append(.expression(audience)) }
        if self.everyone { targets.append(.everyone([])) }
        if let fcmTopic { targets.append(.fcmTopic(fcmTopic)) }
        if let fcmCondition { targets.append(.fcmCondition(fcmCondition)) }
        guard let target = targets.first, targets.count == 1 else {
            let kinds =
                "--topic, --device, --user, --address, --condition, --audience, --everyone, --fcm-topic or --fcm-condition"
            throw Misuse(description: "whom is it for? Give exactly one kind of target: \(kinds)")
        }
        return target
    }

    private static func address(_ text: String) throws(Misuse) -> Address {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[1].isEmpty else { throw Misuse(description: "--address is provider:token") }
        guard let realm = Realm.allCases.first(where: { $0.name == parts[0] }) else {
            let names = Realm.allCases.map { "\($0.name):" }
            let list = "\(names.dropLast().joined(separator: ", ")) or \(names[names.count - 1])"
            throw Misuse(description: "--address begins with \(list)")
        }
        var address = Address(provider: realm.provider, token: parts[1])
        address.environment = realm.environment
        return address
    }

    private static func milliseconds(_ text: String) throws(Misuse) -> Int64 {
        guard let value = DurationText.milliseconds(text) else {
            throw Misuse(description: "--ttl is \(DurationText.form)")
        }
        return value
    }
}
