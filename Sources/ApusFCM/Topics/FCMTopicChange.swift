package import ApusCore
internal import ApusProviders

/// Who is to be in one of FCM's own topics, and who no more: so FCM can hold an audience, and no token need be kept for it.
package struct FCMTopicChange: Hashable, Sendable {
    /// What happens.
    package enum Verb: String, CaseIterable, Sendable {
        /// The app instances get what is sent to the topic from now on.
        case subscribe
        /// They don't any more.
        case unsubscribe
    }

    /// What happens.
    package let verb: Verb
    /// The topic.
    package let topic: TopicName

    /// A change.
    package init(_ verb: Verb, _ topic: TopicName) {
        self.verb = verb
        self.topic = topic
    }
}

/// What became of one app instance's part in a change.
///
/// Source: https://developers.google.com/instance-id/reference/server, and the Admin SDKs' table of its words
package enum FCMTopicOutcome: Hashable, Sendable {
    /// It is as it should be.
    case done
    /// The app instance is gone: its token can be deleted.
    case gone
    /// The token is none. It is told and left alone: an answer to a message makes it suspect.
    case badToken
    /// It is in as many topics as FCM allows an app instance: 2,000.
    case tooManyTopics
    /// Try again later: quota or trouble. Waiting grows exponentially; FCM takes 3,000 changes a second of a project
    /// (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    case later
    /// Refused for the project: credentials or rights.
    case refused(String)

    /// Of a word that both interfaces use, also as a status.
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
