internal import ApusCore

/// A kind of load that `apus-lab loadtest --scenario` puts on a cluster of its own.
package enum LoadScenario: String, CaseIterable, Hashable, Sendable {
    /// Express sends to one device each.
    case transactional
    /// Express sends to one user each, who has three devices of two providers.
    case users
    /// Sends to a topic that every device subscribes.
    case fanout
    /// Express sends to one device each, during sends to a topic at a rate of their own.
    case mixed
    /// Devices that register over HTTP.
    case register
    /// Only a store full of devices: see ``StoreMemory``.
    case memory

    /// A sentence about the measurement.
    package var abstract: String {
        switch self {
        case .transactional: "Express sends to one device each: from when each was due until the provider accepted it."
        case .users:
            "Express sends to one user each, with two phones of Apple's and one of Google's: until each of the three was accepted."
        case .fanout: "Sends to a topic: from when each was due until each of its notifications was accepted."
        case .mixed: "Express sends as in transactional, while a topic is sent to at --bulk-rate."
        case .register: "New devices over HTTP: from when each was due until registration had answered."
        case .memory: "Redis's memory for each of --devices, with APNs and FCM tokens, and for each subscription."
        }
    }

    /// True when the scenario has a rate and latencies.
    package var isLoad: Bool { self != .memory }

    /// The providers of the devices in the store, in turn. All devices are Apple's, as in the limit programs, unless a send goes to several.
    var providers: [Provider] { self == .users ? [.apns, .apns, .fcm] : [.apns] }

    /// The devices that each express send goes to, which follow each other in the store.
    var devicesPerSend: Int { self == .users ? self.providers.count : 1 }

    /// The unit of `ratePerSecond`.
    package var unit: String {
        switch self {
        case .transactional, .users, .mixed: "sends"
        case .fanout: "notifications"
        case .register: "registrations"
        case .memory: "devices"
        }
    }

    /// The default rate per second; meaningless for a scenario without a rate.
    package var defaultRate: Double {
        switch self {
        case .transactional, .users: 1_000
        case .fanout: 20_000
        case .mixed: 200
        case .register: 500
        case .memory: 1
        }
    }
}

/// The settings of one run of a scenario.
package struct ScenarioOptions: Hashable, Sendable {
    /// The maximum number of devices.
    package static let devicesMax = 5_000_000

    /// The scenario.
    package var scenario: LoadScenario
    /// The units of the scenario per second.
    package var ratePerSecond: Double
    /// The measured seconds.
    package var seconds = 10.0
    /// The unmeasured seconds before.
    package var warmUpSeconds = 2.0
    /// The number of devices in the store before it begins.
    package var devices = 10_000
    /// The notifications per second of the topic sends of ``LoadScenario/mixed``.
    package var bulkRatePerSecond = 10_000.0
    /// The seconds to wait for the work to be done after the last scheduled time.
    package var patienceSeconds = 60.0
    /// True to keep the simulator busy on purpose, to test that the figures are then refused.
    package var saturatesSink = false
    /// The seed that selects recipients.
    package var seed: UInt64 = 1

    /// Creates the default settings of a scenario.
    package init(_ scenario: LoadScenario) {
        self.scenario = scenario
        self.ratePerSecond = scenario.defaultRate
    }

    /// The plan of the units that `ratePerSecond` counts: sends or registrations.
    package var plan: LoadPlan { self.plan(rate: self.ratePerSecond) }

    /// Returns the plan of topic sends for a number of notifications per second: at least one of them is measured.
    package func topicPlan(notificationsPerSecond: Double) -> LoadPlan {
        self.plan(rate: notificationsPerSecond / Double(self.devices))
    }

    private func plan(rate: Double) -> LoadPlan {
        LoadPlan(
            ratePerSecond: rate,
            warmUp: Int((rate * self.warmUpSeconds).rounded()),
            measured: max(1, Int((rate * self.seconds).rounded())),
        )
    }
}
