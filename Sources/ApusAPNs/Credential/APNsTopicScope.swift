package import ApusMessages
internal import ApusProviders

/// The topics that a key or a certificate serves. Other topics are refused here, where the reason can be given; Apple
/// would answer `TopicDisallowed`, and the recipients would wait.
///
/// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
package enum APNsTopicScope: Hashable, Sendable {
    /// All topics of the team: a key without limits.
    case team
    /// The topics of these bundle ids, whatever the push type: a topic-specific key.
    case bundleIDs([String])
    /// Exactly these topics: a certificate names every suffix.
    case topics([String])

    /// Throws when a kind of notification may not be sent to an app.
    ///
    /// - Throws: a problem of the notification's kind that names the topic and the scope.
    package func check(_ kind: Notification.Kind, of bundleID: String) throws(Problem) {
        try self.check(topic: APNsPushType(kind).topic(bundleID: bundleID), of: bundleID)
    }

    /// Throws when nothing may be sent to a broadcast channel of an app, whose topic is the bundle id alone.
    package func checkChannel(of bundleID: String) throws(Problem) { try self.check(topic: bundleID, of: bundleID) }

    private func check(topic: String, of bundleID: String) throws(Problem) {
        let (isServed, served): (Bool, [String]) =
            switch self {
            case .team: (true, [])
            case .bundleIDs(let ids): (ids.contains(bundleID), ids)
            case .topics(let topics): (topics.contains(topic), topics)
            }
        guard !isServed else { return }
        throw Problem(
            .topicNotServed,
            "notification.kind",
            "needs the topic \(topic); the app's credential serves \(served.joined(separator: ", "))",
        )
    }
}
