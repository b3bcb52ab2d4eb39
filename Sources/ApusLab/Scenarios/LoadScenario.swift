/// A kind of load that `apus-lab loadtest --scenario` puts on a cluster of its own.
package enum LoadScenario: String, CaseIterable, Hashable, Sendable {
    /// Express sends to one device each.
    case transactional
    /// Sends to a topic that every device subscribes.
    case fanout
    /// Express sends to one device each, while sends to a topic go on at a rate of their own.
    case mixed
    /// Devices that register over HTTP.
    case register
    /// Nothing but a store full of devices: see ``StoreMemory``.
    case memory

    /// One sentence about what is measured.
    package var abstract: String {
        switch self {
        case .transactional: "Express sends to one device each: from when each was due until the provider accepted it."
        case .fanout: "Sends to a topic: from when each was due until each of its notifications was accepted."
        case .mixed: "Express sends as in transactional, while a topic is sent to at --bulk-rate."
        case .register: "New devices over HTTP: from when each was due until registration had answered."
        case .memory: "Redis's memory for each of --devices, with APNs and FCM tokens, and for each subscription."
        }
    }

    /// True when it has a rate and latencies.
    package var isLoad: Bool { self != .memory }

    /// The unit of `ratePerSecond`.
    package var unit: String {
        switch self {
        case .transactional, .mixed: "sends"
        case .fanout: "notifications"
        case .register: "registrations"
        case .memory: "devices"
        }
    }

    /// The rate when none is given, per second; of what has no rate it means nothing.
    package var defaultRate: Double {
        switch self {
        case .transactional: 1_000
        case .fanout: 20_000
        case .mixed: 200
        case .register: 500
        case .memory: 1
        }
    }
}

/// The settings of one run of a scenario.
package struct ScenarioOptions: Hashable, Sendable {
    /// Most devices of a topic, or to choose from.
    package static let devicesMax = 5_000_000

    /// Which.
    package var scenario: LoadScenario
    /// Of the scenario's unit, per second.
    package var ratePerSecond: Double
    /// Seconds that are measured.
    package var seconds = 10.0
    /// Seconds before, which are not.
    package var warmUpSeconds = 2.0
    /// Devices in the store before it begins.
    package var devices = 10_000
    /// Notifications per second of the topic sends of ``LoadScenario/mixed``.
    package var bulkRatePerSecond = 10_000.0
    /// Seconds that what was sent may take to be done, after the last was due.
    package var patienceSeconds = 60.0
    /// True when the simulator is kept busy on purpose: to see that the figures are then refused.
    package var saturatesSink = false
    /// The seed that recipients are drawn from.
    package var seed: UInt64 = 1

    /// Creates the default settings of a scenario.
    package init(_ scenario: LoadScenario) {
        self.scenario = scenario
        self.ratePerSecond = scenario.defaultRate
    }

    /// The plan of what `ratePerSecond` counts one by one: sends or registrations.
    package var plan: LoadPlan { self.plan(rate: self.ratePerSecond) }

    /// The plan of topic sends that together bring so many notifications per second: at least one of them is measured.
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
