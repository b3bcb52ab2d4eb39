package import ApusCore
package import ApusMessages
package import ApusProviders

/// Whom an FCM request is for. Exactly one: FCM refuses a message with two targets, and so does this type.
///
/// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
package enum FCMTarget: Hashable, Sendable {
    /// A registration token, filled in for each device.
    case token
    /// A Firebase installation id, filled in for each device.
    case installation
    /// FCM holds the audience.
    case topic(TopicName)
    /// FCM holds the audience.
    case condition(TopicCondition)

    /// Topics in one condition.
    package static let conditionTopicsMax = 5

    /// The target of a command that leaves the audience to FCM: a topic, with or without "/topics/".
    package static func topic(parsing text: String) throws(Problem) -> FCMTarget {
        do throws(IdentifierError) {
            return .topic(try TopicName(text))
        } catch {
            throw Problem(.invalid, "target.fcm_topic", error.description)
        }
    }

    /// The target of a command that leaves the audience to FCM: a condition over at most five topics.
    package static func condition(parsing text: String) throws(Problem) -> FCMTarget {
        do throws(TopicConditionError) {
            return .condition(try TopicCondition(parsing: text, topicsMax: Self.conditionTopicsMax))
        } catch {
            throw Problem(.invalid, "target.fcm_condition", error.description)
        }
    }

    /// What the messages of a command are addressed to: the audience that FCM holds, else each device's token.
    package init(_ target: Target) throws(Problem) {
        switch target {
        case .fcmTopic(let name): self = try .topic(parsing: name)
        case .fcmCondition(let text): self = try .condition(parsing: text)
        case .addresses, .devices, .users, .topic, .condition, .expression, .everyone, .apnsChannel: self = .token
        }
    }

    /// The target that a device's token stands for; nil for tokens that only Apple knows.
    package init?(_ kind: TokenKind) {
        switch kind {
        case .device: self = .token
        case .installation: self = .installation
        case .voip, .liveActivityStart, .liveActivityUpdate, .pushToTalk, .widgets, .controls: return nil
        }
    }

    /// The member of the message that names it.
    package var memberName: String {
        switch self {
        case .token: "token"
        case .installation: "fid"
        case .topic: "topic"
        case .condition: "condition"
        }
    }

    /// Whether FCM holds the audience: one request reaches many devices, and nothing in it differs between them.
    package var isAudience: Bool {
        switch self {
        case .token, .installation: false
        case .topic, .condition: true
        }
    }

    /// Bytes of the payload at most.
    /// Source: https://firebase.google.com/docs/cloud-messaging/error-codes (MESSAGE_TOO_BIG)
    package var payloadBytesMax: Int {
        self.isAudience ? 2_048 : 4_096
    }
}
