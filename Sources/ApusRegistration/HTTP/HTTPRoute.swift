internal import ApusMetrics

/// The template of a path.
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
    /// What a device reports about notifications.
    case events
    /// Many devices at once.
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
    /// The description of all this.
    case openAPI
    /// Any other path.
    case none

    /// As metrics count it.
    package var group: HTTPRouteGroup {
        switch self {
        case .device: .device
        case .topics, .topic, .activity, .test, .events: .devicePart
        case .devicesImport: .devicesImport
        case .user, .userDevices, .userDevice: .users
        case .sends, .send: .sends
        case .openAPI, .none: .none
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
        case .openAPI: "/openapi.json"
        case .none: ""
        }
    }

    /// What may be asked there.
    package var verbs: [HTTPVerb] {
        switch self {
        case .device: [.get, .put, .patch, .delete]
        case .topics: [.get, .put, .post]
        case .topic, .activity, .userDevice: [.put, .delete]
        case .test, .events, .devicesImport, .sends: [.post]
        case .user: [.delete]
        case .userDevices, .send, .openAPI: [.get]
        case .none: []
        }
    }

    /// Who may ask it.
    package var access: Access {
        switch self {
        case .device, .topics, .topic, .activity, .events, .user, .userDevices, .userDevice: .devices
        case .test: .testers
        case .devicesImport: .backends
        case .sends, .send: .publishers
        case .openAPI, .none: .everyone
        }
    }
}

/// What may be asked of a route.
package enum HTTPVerb: String, CaseIterable, Sendable {
    /// HEAD is GET without the body.
    case get = "GET"
    /// Create or replace.
    case put = "PUT"
    /// Do something.
    case post = "POST"
    /// Change in part.
    case patch = "PATCH"
    /// Remove.
    case delete = "DELETE"
    /// No route has it.
    case other
}

/// Routes as metrics tell them apart: each by itself would be more series than anybody looks at.
package enum HTTPRouteGroup: Int, ClosedMetricLabel, Hashable {
    /// A device.
    case device
    /// What belongs to a device.
    case devicePart
    /// Many devices at once.
    case devicesImport
    /// Users and their devices.
    case users
    /// Sends.
    case sends
    /// Any other path.
    case none

    /// `route`.
    package static let labelNames = ["route"]

    /// What the templates have in common.
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

/// A group of routes, and what was asked there where that matters.
package struct HTTPOperation: ClosedMetricLabel, Hashable {
    /// Where.
    package let group: HTTPRouteGroup
    /// What; nil: whatever.
    package let verb: HTTPVerb?

    /// As metrics count it.
    package init(_ route: HTTPRoute, _ verb: HTTPVerb) {
        self.init(group: route.group, verb: Self.verbs(route.group).isEmpty ? nil : verb)
    }

    private init(group: HTTPRouteGroup, verb: HTTPVerb?) {
        self.group = group
        self.verb = verb.map { Self.verbs(group).contains($0) ? $0 : .other }
    }

    /// What is told apart there.
    private static func verbs(_ group: HTTPRouteGroup) -> [HTTPVerb] {
        switch group {
        case .device: [.get, .put, .patch, .delete, .other]
        case .sends: [.get, .post, .other]
        case .devicePart, .devicesImport, .users, .none: []
        }
    }

    /// `route` and `method`.
    package static let labelNames = ["route", "method"]
    /// Every group with what is told apart there.
    package static let allCases = HTTPRouteGroup.allCases.flatMap { group in
        let verbs: [HTTPVerb?] = Self.verbs(group)
        return (verbs.isEmpty ? [nil] : verbs).map { HTTPOperation(group: group, verb: $0) }
    }

    /// From 0.
    package var labelIndex: Int {
        guard let index = Self.allCases.firstIndex(of: self) else { preconditionFailure("one of all") }
        return index
    }

    /// The route and the method.
    package var labelValues: [String] { self.group.labelValues + [self.verb?.rawValue ?? "any"] }
}
