internal import ApusMetrics

/// Names the path template of a request.
package enum HTTPRoute: CaseIterable, Hashable, Sendable {
    /// A device.
    case device
    /// All topics of a device.
    case topics
    /// A device's topic.
    case topic
    /// A Live Activity on a device.
    case activity
    /// A test notification to a device.
    case test
    /// The events that a device reports of notifications.
    case events
    /// The import and the export of devices.
    case devicesImport
    /// A user.
    case user
    /// All devices of a user.
    case userDevices
    /// A user's device.
    case userDevice
    /// Sends.
    case sends
    /// A send.
    case send
    /// Sends in gorush's form.
    case gorush
    /// Notifications of Matrix homeservers, and the discovery of UnifiedPush.
    case matrix
    /// The key that browsers subscribe with.
    case webPushKey
    /// The description of the API.
    case openAPI
    /// Any other path.
    case none

    /// The group in metrics.
    package var group: HTTPRouteGroup {
        switch self {
        case .device: .device
        case .topics, .topic, .activity, .test, .events: .devicePart
        case .devicesImport: .devicesImport
        case .user, .userDevices, .userDevice: .users
        case .sends, .send, .gorush, .matrix: .sends
        case .webPushKey, .openAPI, .none: .none
        }
    }

    /// The path, with its parameters in braces.
    package var template: String {
        switch self {
        case .device: "/v1/apps/{app}/devices/{device}"
        case .topics: "/v1/apps/{app}/devices/{device}/topics"
        case .topic: "/v1/apps/{app}/devices/{device}/topics/{topic}"
        case .activity: "/v1/apps/{app}/devices/{device}/activities/{activity}"
        case .test: "/v1/apps/{app}/devices/{device}/test"
        case .events: "/v1/apps/{app}/devices/{device}/events"
        case .devicesImport: "/v1/apps/{app}/devices:import"
        case .user: "/v1/apps/{app}/users/{user}"
        case .userDevices: "/v1/apps/{app}/users/{user}/devices"
        case .userDevice: "/v1/apps/{app}/users/{user}/devices/{device}"
        case .sends: "/v1/apps/{app}/sends"
        case .send: "/v1/apps/{app}/sends/{send}"
        case .gorush: "/v1/apps/{app}/gorush/api/push"
        case .matrix: "/_matrix/push/v1/notify"
        case .webPushKey: "/v1/apps/{app}/webpush/key"
        case .openAPI: "/openapi.json"
        case .none: ""
        }
    }

    /// The operations of the route.
    package var verbs: [HTTPVerb] {
        switch self {
        case .device: [.get, .put, .patch, .delete]
        case .topics: [.get, .put, .post]
        case .topic, .activity, .userDevice: [.put, .delete]
        case .test, .events, .devicesImport, .gorush: [.post]
        case .sends: [.get, .post]
        case .send: [.get, .patch]
        case .matrix: [.get, .post]
        case .user: [.delete]
        case .userDevices, .webPushKey, .openAPI: [.get]
        case .none: []
        }
    }

    /// Returns the names that the query of an operation may have.
    package func queryNames(_ verb: HTTPVerb) -> [String] {
        switch (self, verb) {
        case (.sends, .get): ["limit", "cursor", "state", "search"]
        case (.sends, .post), (.gorush, .post): ["lane"]
        default: []
        }
    }

    /// The callers that may use it.
    package var access: Access {
        switch self {
        case .device, .topics, .topic, .activity, .events, .user, .userDevices, .userDevice: .devices
        case .test: .testers
        case .devicesImport: .backends
        case .sends, .send, .gorush: .publishers
        case .webPushKey, .matrix, .openAPI, .none: .everyone
        }
    }
}

/// Names an operation on a route.
package enum HTTPVerb: String, CaseIterable, Sendable {
    /// Reads; HEAD is GET without the body.
    case get = "GET"
    /// Creates or replaces.
    case put = "PUT"
    /// Performs an action.
    case post = "POST"
    /// Changes in part.
    case patch = "PATCH"
    /// Removes.
    case delete = "DELETE"
    /// Any other method, which no route has.
    case other
}

/// Names a group of routes in metrics: each route by itself would make more series than anybody looks at.
package enum HTTPRouteGroup: Int, ClosedMetricLabel, Hashable {
    /// A device.
    case device
    /// The routes of a device.
    case devicePart
    /// The import and the export of devices.
    case devicesImport
    /// Users and their devices.
    case users
    /// Sends.
    case sends
    /// Any other path.
    case none

    /// The label `route`.
    package static let labelNames = ["route"]

    /// The path template that stands for the group.
    package var labelValues: [String] {
        switch self {
        case .device: [HTTPRoute.device.template]
        case .devicePart: [HTTPRoute.device.template + "/..."]
        case .devicesImport: [HTTPRoute.devicesImport.template]
        case .users: [HTTPRoute.user.template + "/..."]
        case .sends: [HTTPRoute.sends.template]
        case .none: ["other"]
        }
    }
}

/// Names a group of routes, and the method where that matters, in metrics.
package struct HTTPOperation: ClosedMetricLabel, Hashable {
    /// The group of routes.
    package let group: HTTPRouteGroup
    /// The method; nil when methods are counted together.
    package let verb: HTTPVerb?

    /// Returns the group and method of a request.
    package init(_ route: HTTPRoute, _ verb: HTTPVerb) {
        self.init(group: route.group, verb: Self.verbs(route.group).isEmpty ? nil : verb)
    }

    private init(group: HTTPRouteGroup, verb: HTTPVerb?) {
        self.group = group
        self.verb = verb.map { Self.verbs(group).contains($0) ? $0 : .other }
    }

    /// Returns the methods that are counted apart in a group.
    private static func verbs(_ group: HTTPRouteGroup) -> [HTTPVerb] {
        switch group {
        case .device: [.get, .put, .patch, .delete, .other]
        case .sends: [.get, .post, .patch, .other]
        case .devicePart, .devicesImport, .users, .none: []
        }
    }

    /// The labels `route` and `method`.
    package static let labelNames = ["route", "method"]
    /// Every group with its methods.
    package static let allCases = HTTPRouteGroup.allCases.flatMap { group in
        let verbs: [HTTPVerb?] = Self.verbs(group)
        return (verbs.isEmpty ? [nil] : verbs).map { HTTPOperation(group: group, verb: $0) }
    }

    /// The index in `allCases`, from 0.
    package var labelIndex: Int {
        guard let index = Self.allCases.firstIndex(of: self) else { preconditionFailure("one of all") }
        return index
    }

    /// The values of both labels.
    package var labelValues: [String] { self.group.labelValues + [self.verb?.rawValue ?? "any"] }
}
