internal import ApusCore
package import ApusMessages
package import ApusStreams
internal import ApusTerminal

extension AuditTrail {
    /// Enters that an operator publishes a command, which has its id.
    ///
    /// - Parameter patience: the time during which the client repeats the call; nil for the configuration's.
    package func record(
        publicationOf command: SendCommand,
        by someone: Operator,
        patience: Duration? = nil,
    ) async throws {
        let target = TargetText.words(command.target)
        try await self.record(
            AuditEntry("send.publish", of: command.id, app: command.app, detail: target, by: someone),
            patience: patience,
        )
    }
}

/// Puts targets into words. It is pure.
package enum TargetText {
    /// Returns the audience of a send in words.
    package static func words(_ target: Target) -> String {
        func some(_ names: [String], _ one: String, _ many: String) -> String {
            names.count == 1 ? "\(one) \(names[0])" : "\(NumberText.grouped(names.count)) \(many)"
        }
        return switch target {
        case .addresses(let addresses): "\(NumberText.grouped(addresses.count)) addresses of the publisher"
        case .devices(let ids): some(ids, "device", "devices")
        case .users(let ids): some(ids, "user", "users")
        case .topic(let name): "topic \(name)"
        case .condition(let text), .expression(let text): text
        case .everyone(let providers):
            providers.isEmpty ? "everyone" : "everyone at \(providers.map(\.name).joined(separator: ", "))"
        case .fcmTopic(let name): "Google's topic \(name)"
        case .fcmCondition(let text): "Google's topics: \(text)"
        case .fcmGroup: "a device group of Google's"
        case .apnsChannel(let id, _, _): "Apple's broadcast channel \(id)"
        }
    }
}
