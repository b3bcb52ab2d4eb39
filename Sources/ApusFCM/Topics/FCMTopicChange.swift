package import ApusCore
internal import ApusProviders

/// A subscription of app instances to one of FCM's own topics, or its end: so FCM can hold an audience, and no token need be stored for it.
package struct FCMTopicChange: Hashable, Sendable {
    /// The kinds of changes.
    package enum Verb: String, CaseIterable, Sendable {
        /// The app instances receive the topic's messages from now on.
        case subscribe
        /// The app instances no longer receive the topic's messages.
        case unsubscribe
    }

    /// The kind of change.
    package let verb: Verb
    /// The topic.
    package let topic: TopicName

    /// Creates a change.
    package init(_ verb: Verb, _ topic: TopicName) {
        self.verb = verb
        self.topic = topic
    }
}

/// The result of a change for one app instance.
///
/// Source: https://developers.google.com/instance-id/reference/server, and the Admin SDKs' table of its words
package enum FCMTopicOutcome: Hashable, Sendable {
    /// The subscription is as requested.
    case done
    /// The app instance is gone: its token can be deleted.
    case gone
    /// The token is invalid. It is reported and left alone: an answer to a message makes it suspect.
    case badToken
    /// The app instance has the maximum number of topics: 2,000.
    case tooManyTopics
    /// Retry later: a quota is exceeded or the service is in trouble. The wait grows exponentially; FCM accepts 3,000
    /// changes a second from a project (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    case later
    /// The change was refused for the project: its credentials or permissions.
    case refused(String)

    /// Classifies an error word that both interfaces use, also as a status.
    package init(word: String) {
        switch word {
        case "NOT_FOUND": self = .gone
        case "INVALID_ARGUMENT": self = .badToken
        case "TOO_MANY_TOPICS": self = .tooManyTopics
        case "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE": self = .later
        case "ALREADY_EXISTS": self = .done
        default: self = .refused(ProviderText.cleaned(word))
        }
    }
}
