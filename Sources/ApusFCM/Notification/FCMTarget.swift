package import ApusCore
package import ApusMessages
internal import ApusProviders

/// The target of an FCM request. There is exactly one: FCM refuses a message with two targets, which this type cannot express.
///
/// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
package enum FCMTarget: Hashable, Sendable {
    /// A registration token, inserted for each device.
    case token
    /// A Firebase installation id, inserted for each device.
    case installation
    /// A topic, whose audience FCM holds.
    case topic(TopicName)
    /// A condition over topics, whose audience FCM holds.
    case condition(TopicCondition)
    /// The notification key of a device group, whose members FCM holds.
    case group(String)

    /// The maximum number of topics in one condition.
    static let conditionTopicsMax = 5

    /// Parses the target of a command that leaves the audience to FCM: a topic, with or without "/topics/".
    package static func topic(parsing text: String) throws(Problem) -> FCMTarget {
        do throws(IdentifierError) {
            return .topic(try TopicName(text))
        } catch {
            throw Problem(.invalid, "target.fcm_topic", error.description)
        }
    }

    /// Parses the target of a command that leaves the audience to FCM: a condition over at most five topics.
    package static func condition(parsing text: String) throws(Problem) -> FCMTarget {
        do throws(TopicConditionError) {
            return .condition(try TopicCondition(parsing: text, topicsMax: Self.conditionTopicsMax))
        } catch {
            throw Problem(.invalid, "target.fcm_condition", error.description)
        }
    }

    /// Creates the target of a command's messages: the audience that FCM holds, otherwise each device's token.
    package init(_ target: Target) throws(Problem) {
        switch target {
        case .fcmTopic(let name): self = try .topic(parsing: name)
        case .fcmCondition(let text): self = try .condition(parsing: text)
        case .fcmGroup(let key): self = .group(key)
        case .addresses, .devices, .users, .topic, .condition, .expression, .everyone, .apnsChannel: self = .token
        }
    }

    /// Creates the target of a device's token; nil for tokens that only Apple knows.
    package init?(_ kind: TokenKind) {
        switch kind {
        case .device: self = .token
        case .installation: self = .installation
        case .voip, .liveActivityStart, .liveActivityUpdate, .pushToTalk, .widgets, .controls: return nil
        }
    }

    /// The member of the message that holds the target.
    package var memberName: String {
        switch self {
        // FCM takes a group's key in the place of a token.
        case .token, .group: "token"
        case .installation: "fid"
        case .topic: "topic"
        case .condition: "condition"
        }
    }

    /// True when FCM holds the audience: one request reaches many devices, and nothing in it differs between them.
    package var isAudience: Bool {
        switch self {
        case .token, .installation: false
        case .topic, .condition, .group: true
        }
    }

    /// The maximum bytes of the payload.
    /// Source: https://firebase.google.com/docs/cloud-messaging/error-codes (MESSAGE_TOO_BIG)
    package var payloadBytesMax: Int {
        switch self {
        case .token, .installation, .group: 4_096
        case .topic, .condition: 2_048
        }
    }
}
