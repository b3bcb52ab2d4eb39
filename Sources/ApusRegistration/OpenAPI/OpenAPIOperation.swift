internal import ApusCore

/// What `/openapi.json` says of one operation, beside what its route and verb say already.
struct OpenAPIOperation {
    /// A body: media types and the name of its schema; nil: protobuf, which a JSON schema cannot describe.
    struct Content {
        var json: String
        var types: [MediaType]
        var isRequired = true
    }

    /// An answer that is no problem.
    struct Success {
        var status: Int
        var text: String
        /// Nil: no body.
        var content: Content?
        var hasETag = false
        var hasLocation = false
    }

    var name: String
    var summary: String
    var request: Content?
    var successes: [Success]
    /// Problems that only some operations have. What every one can answer is added by the document.
    var problems: [ProblemDetails.Kind] = []
    /// Whether `If-Match` and `If-None-Match` are conditions of the change.
    var isConditional = false
    var hasLane = false
    var hasIdempotencyKey = false
    /// Whether `If-None-Match` is answered by 304.
    var isCacheable = false
}

extension OpenAPIOperation {
    private static let device = Content(json: "Device", types: [.json, .protobuf])
    private static let topics = Content(json: "Topics", types: [.json])
    private static let done = Success(status: 204, text: "It is so now.")

    /// The operation of a route and verb; nil: there is none.
    static func of(_ route: HTTPRoute, _ verb: HTTPVerb) -> OpenAPIOperation? {
        switch (route, verb) {
        case (.device, _): Self.ofDevice(verb)
        case (.topics, _), (.topic, _), (.activity, _): Self.ofPart(route, verb)
        case (.user, _), (.userDevices, _), (.userDevice, _): Self.ofUser(route, verb)
        case (.devicesImport, .post):
            OpenAPIOperation(
                name: "importDevices",
                summary: "Registers many devices, one JSON object a line; answers a line for each, in their order.",
                request: Content(json: "ImportLine", types: [.ndjson]),
                successes: [
                    Success(status: 200, text: "A line each.", content: .init(json: "ImportAnswer", types: [.ndjson]))
                ],
                problems: [.unsupportedMediaType],
            )
        case (.test, .post):
            OpenAPIOperation(
                name: "sendTest",
                summary: "Sends a test notification to the device.",
                request: Content(json: "TestNotification", types: [.json], isRequired: false),
                successes: [Self.accepted],
                problems: [.notFound, .conflict, .contentTooLarge, .unsupportedMediaType, .invalidContent],
            )
        case (.events, .post):
            OpenAPIOperation(
                name: "reportEvents",
                summary: "Reports what happened to notifications on the device. The same event id counts once.",
                request: Content(json: "Events", types: [.json]),
                successes: [
                    Success(status: 202, text: "They are taken.", content: .init(json: "EventsTaken", types: [.json]))
                ],
                problems: [.notFound, .contentTooLarge, .unsupportedMediaType, .invalidContent],
            )
        case (.sends, .post):
            OpenAPIOperation(
                name: "publish",
                summary: "Publishes a send. The same id or Idempotency-Key within a day is the same send.",
                request: Content(json: "Send", types: [.json, .protobuf]),
                successes: [Self.accepted],
                problems: [.conflict, .contentTooLarge, .unsupportedMediaType, .invalidContent],
                hasLane: true,
                hasIdempotencyKey: true,
            )
        case (.send, .get):
            OpenAPIOperation(
                name: "getSend",
                summary: "Tells where a send stands.",
                successes: [
                    Success(status: 200, text: "Where it stands.", content: .init(json: "SendStatus", types: [.json]))
                ],
                problems: [.notFound],
            )
        case (.openAPI, .get):
            OpenAPIOperation(
                name: "getDescription",
                summary: "This description.",
                successes: [
                    Success(status: 200, text: "OpenAPI 3.1.", content: .init(json: "Description", types: [.json]))
                ],
            )
        default: nil
        }
    }

    private static let accepted = Success(
        status: 202,
        text: "It stands in its mailbox; Location is where to ask for it.",
        content: .init(json: "SendAccepted", types: [.json]),
        hasLocation: true,
    )

    private static func ofDevice(_ verb: HTTPVerb) -> OpenAPIOperation? {
        let stored = Success(status: 200, text: "The device as it is stored.", content: Self.device, hasETag: true)
        switch verb {
        case .put:
            let created = Success(status: 201, text: "It is new.", content: Self.device, hasETag: true)
            return OpenAPIOperation(
                name: "putDevice",
                summary: "Creates or replaces a device. Topics and attributes stay where none are given.",
                request: Content(json: "DeviceRegistration", types: [.json, .protobuf]),
                successes: [stored, created],
                problems: [.conflict, .preconditionFailed, .contentTooLarge, .unsupportedMediaType, .invalidContent],
                isConditional: true,
            )
        case .get:
            return OpenAPIOperation(
                name: "getDevice",
                summary: "Shows a device; of its token only a digest.",
                successes: [stored],
                problems: [.notFound, .conflict],
                isCacheable: true,
            )
        case .patch:
            return OpenAPIOperation(
                name: "patchDevice",
                summary: "Changes user, attributes or badge by a merge patch (RFC 7396).",
                request: Content(json: "DevicePatch", types: [.mergePatch]),
                successes: [stored],
                problems: [
                    .notFound, .conflict, .preconditionFailed, .contentTooLarge, .unsupportedMediaType, .invalidContent,
                ],
                isConditional: true,
            )
        case .delete:
            return OpenAPIOperation(
                name: "deleteDevice",
                summary: "Forgets a device; it need not be there.",
                successes: [Self.done],
                problems: [.conflict, .preconditionFailed],
                isConditional: true,
            )
        case .post, .other: return nil
        }
    }

    private static func ofPart(_ route: HTTPRoute, _ verb: HTTPVerb) -> OpenAPIOperation? {
        let listed = Success(status: 200, text: "Its topics now.", content: Self.topics)
        let change: [ProblemDetails.Kind] = [
            .notFound, .conflict, .preconditionFailed, .contentTooLarge, .unsupportedMediaType, .invalidContent,
        ]
        switch (route, verb) {
        case (.topics, .get):
            return OpenAPIOperation(
                name: "getTopics",
                summary: "Lists the device's topics.",
                successes: [listed],
                problems: [.notFound, .conflict],
            )
        case (.topics, .put):
            return OpenAPIOperation(
                name: "putTopics",
                summary: "Replaces all topics of the device.",
                request: Self.topics,
                successes: [listed],
                problems: change,
                isConditional: true,
            )
        case (.topics, .post):
            return OpenAPIOperation(
                name: "changeTopics",
                summary: "Subscribes some topics and leaves others, in one change.",
                request: Content(json: "TopicChange", types: [.json]),
                successes: [listed],
                problems: change,
                isConditional: true,
            )
        case (.topic, .put):
            return OpenAPIOperation(
                name: "subscribe",
                summary: "Subscribes a topic.",
                successes: [Self.done],
                problems: [.notFound, .conflict, .preconditionFailed, .invalidContent],
                isConditional: true,
            )
        case (.topic, .delete):
            return OpenAPIOperation(
                name: "unsubscribe",
                summary: "Leaves a topic.",
                successes: [Self.done],
                problems: [.conflict, .preconditionFailed],
                isConditional: true,
            )
        case (.activity, .put):
            return OpenAPIOperation(
                name: "putActivity",
                summary:
                    "Gives the token of a Live Activity on the device; one to start them, under its attributes' type.",
                request: Content(json: "Activity", types: [.json]),
                successes: [Self.done],
                problems: change,
                isConditional: true,
            )
        case (.activity, .delete):
            return OpenAPIOperation(
                name: "deleteActivity",
                summary: "Forgets the tokens of a Live Activity.",
                successes: [Self.done],
                problems: [.conflict, .preconditionFailed],
                isConditional: true,
            )
        default: return nil
        }
    }

    private static func ofUser(_ route: HTTPRoute, _ verb: HTTPVerb) -> OpenAPIOperation? {
        switch (route, verb) {
        case (.user, .delete):
            return OpenAPIOperation(
                name: "deleteUser",
                summary: "Forgets every device of a user, and with them all that is known of the user.",
                successes: [Self.done],
                problems: [.conflict],
            )
        case (.userDevices, .get):
            return OpenAPIOperation(
                name: "getUserDevices",
                summary: "Lists the devices of a user.",
                successes: [
                    Success(status: 200, text: "The devices.", content: .init(json: "Devices", types: [.json]))
                ],
                problems: [.conflict],
            )
        case (.userDevice, .put):
            return OpenAPIOperation(
                name: "bindUser",
                summary: "Gives the device to the user.",
                successes: [Self.done],
                problems: [.notFound, .conflict, .preconditionFailed],
            )
        case (.userDevice, .delete):
            return OpenAPIOperation(
                name: "unbindUser",
                summary: "Logs the user out: the device is nobody's, if it was the user's.",
                successes: [Self.done],
                problems: [.conflict],
            )
        default: return nil
        }
    }
}
