internal import ApusCore
internal import ApusMessages
internal import ApusStreams

/// The schemas of `/openapi.json`: what bodies look like, with the limits that they are held to.
enum OpenAPISchemas {
    /// By name.
    static let all: JSONObject = [
        "Problem": Self.problem,
        "Attributes": Self.attributes,
        "DeviceRegistration": Self.registration,
        "Device": Self.device,
        "Devices": Self.object(["devices": Self.array(Self.reference("Device"))], required: ["devices"]),
        "DevicePatch": Self.patch,
        "Topics": Self.object(["topics": Self.topicNames], required: ["topics"]),
        "TopicChange": Self.topicChange,
        "Activity": Self.activity,
        "ImportLine": [
            "allOf": [Self.reference("DeviceRegistration"), ["required": ["device"]]]
        ],
        "ImportAnswer": Self.importAnswer,
        "Events": Self.events,
        "EventsTaken": Self.object(["events": Self.count], required: ["events"]),
        "TestNotification": Self.object(["title": Self.text, "body": Self.text]),
        "Send": Self.send,
        "Target": Self.target,
        "Notification": Self.notification,
        "SendAccepted": Self.object(
            ["send": ["type": "string"], "duplicate": ["type": "boolean"]],
            required: ["send", "duplicate"],
        ),
        "SendStatus": Self.sendStatus,
        "Description": ["type": "object"],
    ]

    /// The schema of a parameter of a path.
    static func identifier(_ name: String) -> JSONObject {
        switch name {
        case "app": ["type": "string", "pattern": "^[a-z0-9-]{1,32}$"]
        case "topic": ["type": "string", "pattern": #"^[a-zA-Z0-9_.~%-]{1,900}$"#]
        case "send": ["type": "string", "pattern": "^[A-Za-z0-9._:-]{1,64}$"]
        // `.` and `..` would be taken for steps of the path.
        default: ["type": "string", "pattern": "^[!-~]{1,128}$", "not": ["enum": [".", ".."]]]
        }
    }

    // MARK: Pieces

    static let text: JSONValue = ["type": "string", "maxLength": .integer(Limits.textBytesMax)]
    static let count: JSONValue = ["type": "integer", "minimum": 0]

    static func object(_ properties: JSONObject, required: [JSONValue] = []) -> JSONValue {
        var object: JSONObject = ["type": "object", "properties": .object(properties)]
        if !required.isEmpty { object["required"] = .array(required) }
        return .object(object)
    }

    static func array(_ items: JSONValue, max: Int? = nil) -> JSONValue {
        var array: JSONObject = ["type": "array", "items": items]
        if let max { array["maxItems"] = .integer(max) }
        return .object(array)
    }

    static func reference(_ name: String) -> JSONValue { ["$ref": .string("#/components/schemas/\(name)")] }

    static func words(_ words: [String]) -> JSONValue { ["enum": .array(words.map { .string($0) })] }

    static func string(_ bytesMax: Int) -> JSONValue { ["type": "string", "maxLength": .integer(bytesMax)] }

    private static let topicName: JSONValue = .object(Self.identifier("topic"))
    private static let topicNames = Self.array(Self.topicName, max: Limits.topicsPerDeviceMax)
    private static let user: JSONValue = ["type": "string", "pattern": "^[!-~]{0,128}$"]
    private static let badge: JSONValue = ["type": "integer", "minimum": 0, "maximum": .integer(Limits.badgeMax)]
    private static let providers = Self.words(Provider.allCases.map(\.name))
    private static let environments = Self.words(ProviderEnvironment.allCases.map(\.name))
    private static let tokenKinds = Self.words(TokenKind.allCases.map(\.name))
    private static let time: JSONValue = ["type": "integer", "minimum": 1, "maximum": .integer(Limits.timeMax.value)]

    // MARK: Whole bodies

    private static let problem = Self.object(
        [
            "type": Self.words(ProblemDetails.Kind.allCases.map(\.type)),
            "title": ["type": "string"],
            "status": ["type": "integer"],
            "detail": ["type": "string"],
            "instance": ["type": "string"],
            "errors": Self.array(
                Self.object(
                    ["pointer": ["type": "string"], "detail": ["type": "string"]],
                    required: ["pointer", "detail"],
                )
            ),
        ],
        required: ["type", "title", "status", "detail", "instance"],
    )

    private static let attributes = Self.object([
        "locale": Self.string(Limits.localeBytesMax),
        "time_zone": Self.string(Limits.timeZoneBytesMax),
        "app_version": Self.string(Limits.appVersionBytesMax),
        "country": Self.string(Limits.countryBytesMax),
        "tags": Self.array(
            ["type": "string", "minLength": 1, "maxLength": .integer(Limits.tagBytesMax)],
            max: Limits.tagsPerDeviceMax,
        ),
    ])

    private static let registration = Self.object(
        [
            "device": ["type": "string", "description": "That of the path, if it is given."],
            "provider": Self.providers,
            "token": [
                "type": "string", "maxLength": .integer(Limits.tokenBytesMax),
                "description": "APNs: hexadecimal; FCM: as the SDK gives it; Web Push: the endpoint.",
            ],
            "environment": Self.environments,
            "token_kind": Self.tokenKinds,
            "user": Self.user,
            "topics": Self.topicNames,
            "attributes": Self.reference("Attributes"),
            "badge": Self.badge,
            "webpush_p256dh": ["type": "string", "description": "base64url, 65 bytes"],
            "webpush_auth": ["type": "string", "description": "base64url, 16 bytes"],
        ],
        required: ["provider", "token"],
    )

    private static let device = Self.object(
        [
            "device": ["type": "string"],
            "provider": Self.providers,
            "environment": Self.environments,
            "token": ["type": "string", "description": "A digest of it."],
            "token_kind": Self.tokenKinds,
            "user": ["type": ["string", "null"]],
            "attributes": Self.reference("Attributes"),
            "topics": Self.topicNames,
            "activities": Self.array(
                Self.object(
                    ["activity": ["type": "string"], "kind": Self.activityKinds, "expires_at_ms": Self.time],
                    required: ["activity", "kind", "expires_at_ms"],
                )
            ),
            "badge": Self.badge,
            "registered_at_ms": ["type": "integer"],
            "seen_at_ms": ["type": "integer"],
        ],
        required: [
            "device", "provider", "environment", "token", "token_kind", "user", "attributes", "topics", "badge",
            "registered_at_ms", "seen_at_ms",
        ],
    )

    private static let patch = Self.object([
        "user": ["anyOf": [Self.user, ["type": "null"]]],
        "badge": ["anyOf": [Self.badge, ["type": "null"]]],
        "attributes": ["anyOf": [Self.reference("Attributes"), ["type": "null"]]],
    ])

    private static let topicChange: JSONValue = [
        "type": "object",
        "properties": ["subscribe": Self.topicNames, "unsubscribe": Self.topicNames],
        "anyOf": [["required": ["subscribe"]], ["required": ["unsubscribe"]]],
    ]

    private static let activityKinds = Self.words(ActivityBody.kinds.map(\.name))

    private static let activity = Self.object(
        [
            "kind": Self.activityKinds,
            "token": ["type": "string", "pattern": "^([0-9a-fA-F]{2}){1,200}$"],
            "expires_at_ms": Self.time,
        ],
        required: ["kind", "token"],
    )

    private static let importAnswer = Self.object(
        [
            "line": ["type": "integer", "minimum": 1], "status": ["type": "integer"], "device": ["type": "string"],
            "type": ["type": "string"], "detail": ["type": "string"],
            "errors": Self.array(Self.object(["pointer": ["type": "string"], "detail": ["type": "string"]])),
        ],
        required: ["line", "status"],
    )

    private static let events = Self.object(
        [
            "events": Self.array(
                Self.object(
                    [
                        "id": ["type": "string", "minLength": 1, "maxLength": .integer(Limits.nameBytesMax)],
                        "send": .object(Self.identifier("send")),
                        "kind": Self.words(ClientEvent.Kind.allCases.map { SnakeCase.name(of: $0) }),
                        "action": Self.string(Limits.nameBytesMax),
                        "at_ms": Self.time,
                    ],
                    required: ["id", "send", "kind"],
                ),
                max: APILimits.eventsMax,
            )
        ],
        required: ["events"],
    )

    private static let identifiers = Self.array(["type": "string"], max: Limits.recipientsMax)
    private static let condition: JSONValue = ["type": "string", "maxLength": .integer(Limits.expressionBytesMax)]

    private static let target: JSONValue = [
        "type": "object",
        "description": "Exactly one of them.",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": [
            "addresses": Self.array(
                Self.object(
                    [
                        "provider": Self.providers, "token": ["type": "string"], "environment": Self.environments,
                        "kind": Self.tokenKinds, "locale": ["type": "string"],
                        "webpush_p256dh": ["type": "string"], "webpush_auth": ["type": "string"],
                    ],
                    required: ["provider", "token"],
                ),
                max: Limits.recipientsMax,
            ),
            "devices": Self.identifiers,
            "users": Self.identifiers,
            "topic": ["type": "string"],
            "condition": Self.condition,
            "expression": Self.condition,
            "everyone": Self.object(["providers": Self.array(Self.providers)]),
            "fcm_topic": ["type": "string"],
            "fcm_condition": Self.condition,
            "apns_channel": Self.object([
                "channel_id": ["type": "string"], "environment": Self.environments,
                "stores_latest": ["type": "boolean"],
            ]),
        ],
    ]

    private static let notification: JSONValue = [
        "type": "object",
        "description": "The members of apus.v1.Notification; words of a closed set in snake case.",
        "properties": [
            "kind": Self.words(Notification.Kind.allCases.map { SnakeCase.name(of: $0) }),
            "title": Self.text, "subtitle": Self.text, "body": Self.text,
            "image": Self.string(Limits.urlBytesMax),
            "sound": Self.object([
                "name": ["type": "string"], "critical": ["type": "boolean"], "volume": ["type": "number"],
            ]),
            "badge_set": Self.count, "badge_increment": Self.count,
            "data": ["type": "object", "additionalProperties": ["type": "string"]],
            "priority": Self.words(Notification.Priority.allCases.map { SnakeCase.name(of: $0) }),
            "expires_at_ms": Self.time, "ttl_ms": Self.count,
            "collapse_key": ["type": "string"],
            "interruption_level": Self.words(
                Notification.InterruptionLevel.allCases.map { SnakeCase.name(of: $0) }
            ),
            "variants": Self.array(
                Self.object(
                    ["locale": ["type": "string"], "title": Self.text, "subtitle": Self.text, "body": Self.text],
                    required: ["locale"],
                ),
                max: Limits.localeVariantsMax,
            ),
            "apns_json": ["type": ["object", "string"]],
            "android_json": ["type": ["object", "string"]],
            "webpush_json": ["type": ["object", "string"]],
            "analytics_label": ["type": "string"],
            "fcm_apns_json": [
                "type": ["object", "string"],
                "description": "Merged last into FCM's apns: headers, payload, fcm_options, live_activity_token.",
            ],
        ],
    ]

    private static let send = Self.object(
        [
            "id": .object(Self.identifier("send")),
            "target": Self.reference("Target"),
            "notification": Self.reference("Notification"),
            "idempotency_key": Self.string(Limits.idempotencyKeyBytesMax),
            "not_before_ms": Self.time,
            "reply_to": Self.string(Limits.replyToBytesMax),
            "receipt_level": Self.words(SendCommand.ReceiptLevel.allCases.map { SnakeCase.name(of: $0) }),
            "rate_per_second": ["type": "integer", "minimum": 0, "maximum": .integer(UInt32.max)],
            "delivery": Self.words(SendCommand.Delivery.allCases.map { SnakeCase.name(of: $0) }),
            "dry_run": ["type": "boolean"],
        ],
        required: ["target", "notification"],
    )

    private static var sendStatus: JSONValue {
        var properties: JSONObject = [
            "send": ["type": "string"],
            "state": Self.words(["waiting", "planning", "running", "paused", "cancelled", "done", "refused"]),
            "planned": Self.count,
            "counts": Self.array(
                Self.object(
                    [
                        "provider": Self.providers, "outcome": Self.words(Outcome.allCases.map(\.name)),
                        "reason": ["type": "string"], "count": Self.count,
                    ],
                    required: ["provider", "outcome", "reason", "count"],
                )
            ),
            "first_at_ms": ["type": "integer"],
            "last_at_ms": ["type": "integer"],
            "problem": Self.object([
                "code": ["type": "string"], "field": ["type": "string"], "detail": ["type": "string"],
            ]),
        ]
        for outcome in Outcome.allCases { properties[outcome.name] = Self.count }
        properties["events"] = Self.eventCounts
        properties["open_rate"] = ["type": ["number", "null"], "minimum": 0]
        return Self.object(
            properties,
            required: ["send", "state", "planned", "counts", "events", "open_rate"],
        )
    }

    /// What apps reported of a send's notifications: by kind, where there was any, and by provider and kind.
    private static var eventCounts: JSONValue {
        let kinds = ClientEvent.Kind.allCases.map(\.name)
        let providers = Provider.allCases.map { JSONValue.string($0.name) } + [JSONValue.null]
        var properties: JSONObject = [
            "by_provider": Self.array(
                Self.object(
                    [
                        "provider": ["enum": .array(providers)],
                        "kind": Self.words(kinds), "count": Self.count,
                    ],
                    required: ["provider", "kind", "count"],
                )
            )
        ]
        for kind in kinds { properties[kind] = Self.count }
        return Self.object(properties, required: ["by_provider"])
    }
}
