internal import ApusCore

/// Decides what happens in a simulation; everything follows from a seed, and what is left out of a plan changes nothing else of it.
package struct SimulationPlan: Hashable, Sendable {
    /// The kinds of what goes wrong, and of what people do meanwhile.
    package enum Event: String, CaseIterable, Sendable {
        /// A service is killed, and starts again later.
        case kill
        /// A service is stopped, as by SIGSTOP, and goes on later.
        case freeze
        /// A connection breaks with what is under way.
        case cut
        /// Redis closes all connections.
        case redisCut = "redis-cut"
        /// Redis accepts no connections for a while, and has closed all.
        case redisDown = "redis-down"
        /// Redis does nothing for a while.
        case redisBusy = "redis-busy"
        /// Pieces of bytes are late.
        case late
        /// Providers answer 429, 500 and 503.
        case refuse
        /// Providers do not answer, or break connections after they have accepted.
        case silence
        /// Providers take seconds for their answers.
        case slow
        /// Providers send GOAWAY.
        case goAway = "goaway"
        /// The time of day jumps.
        case clock
        /// An app is removed from a device, which the provider tells at the next notification.
        case uninstall
        /// A device gets another token.
        case rotate
        /// Somebody else logs in on a device.
        case login
        /// A device leaves the topic, or enters it.
        case topic
        /// A device is deleted.
        case delete
        /// An operator pauses a route, and lets it go on later.
        case pause
        /// An operator pauses a send, and lets it go on later.
        case hold
        /// An operator cancels a send.
        case cancel
        /// The same command is published again.
        case again
        /// A server takes the place of Redis without the last writes: a replica after a failover, or the same one after a restart.
        case redisLoss = "redis-loss"
        /// The copy that such a server begins with hears nothing for a while.
        case copyLag = "copy-lag"
        /// Redis is full for a while.
        case redisFull = "redis-full"
        /// Redis answers with READONLY, LOADING or MASTERDOWN for a while.
        case redisError = "redis-error"
        /// Redis runs a function for seconds, and tells everybody that it is busy.
        case redisScript = "redis-script"
        /// The time of day of one process jumps, or that of Redis.
        case ownClock = "own-clock"
        /// A route is taken out of the configuration, and the dispatchers start again.
        case route
        /// Somebody logs out on a device.
        case logout
        /// An app registers its token under another device id.
        case reinstall
        /// A slot moves from one master of a cluster to another, key by key.
        case slotMove = "slot-move"
        /// A service is asked to stop, as by SIGTERM, ends when it has finished what it has in hand, and starts again later.
        case stop
        /// A backend imports devices, each with a change.
        case imports = "import"
        /// The receiver of the webhook does not work for a while.
        case webhook
        /// The key that records are encrypted with is exchanged for another one, if they are.
        case key
        /// The next send kills every dispatcher that is about to send it.
        case poison
        /// A provider calls tokens dead, or bad, that are not; an operator notices it, and brings the devices back.
        case misjudge
        /// A backend forgets a user, with all devices.
        case forget = "forget-user"

        /// The number of the kind in the random numbers that are drawn for it.
        fileprivate var number: UInt64 {
            guard let index = Self.allCases.firstIndex(of: self) else { preconditionFailure("\(self) is no kind") }
            return UInt64(index) + 1
        }

        /// Returns the random numbers of the kind in a simulation, which do not depend on what other kinds there are, as long as new kinds are
        /// added at the end.
        func generator(seed: UInt64) -> SeededGenerator { SeededGenerator(seed: seed ^ self.number &* 0x1_0001) }
    }

    /// The most apps.
    package static let appsMax = SimulatedFleet.allApps.count
    /// The seconds within which everything ends, whatever happened before.
    package static let endSecondsMax: Int64 = 600

    /// The seed.
    package var seed: UInt64
    /// The dispatchers.
    package var dispatchers: Int
    /// The feedback services.
    package var feedbacks: Int
    /// The registration services.
    package var registrations: Int
    /// The masters of Redis; several are a cluster.
    package var masters: Int
    /// The apps.
    package var apps: Int
    /// True when the records of devices are encrypted in Redis.
    package var isEncrypted: Bool
    /// True when feedback posts receipts to a webhook.
    package var hasWebhook: Bool
    /// The seconds after which a service's work is taken over when it is silent.
    package var leaseSeconds: Int
    /// The devices at the start: at least one of each app.
    package var devices: Int
    /// The sends.
    package var sends: Int
    /// The seconds during which something happens.
    package var seconds: Int64
    /// The seconds within which everything ends after the faults have stopped.
    package var endSeconds = SimulationPlan.endSecondsMax
    /// The kinds of events that take place, with the mean seconds between two of a kind.
    package var events: [Event: Double]
    /// The mean seconds between two of a kind, if it takes place.
    private var means: [Event: Double]
    /// True when Redis has a replica, which confirms writes and takes over; otherwise it has a file on disk, which it restarts with.
    package var hasReplica: Bool

    /// Draws a plan.
    package init(seed: UInt64) {
        var random = SeededGenerator(seed: seed ^ 0x5eed)
        self.seed = seed
        self.dispatchers = Int.random(in: 1...3, using: &random)
        self.feedbacks = Int.random(in: 1...2, using: &random)
        self.leaseSeconds = Int.random(in: 3...10, using: &random)
        self.devices = Int.random(in: 3...60, using: &random)
        self.sends = Int.random(in: 1...30, using: &random)
        self.seconds = Int64.random(in: 10...40, using: &random)
        self.events = [:]
        self.means = [:]
        self.hasReplica = true
        self.registrations = 1
        self.masters = 1
        self.apps = 1
        self.isEncrypted = false
        self.hasWebhook = false
        // Not everything at once: what is rare beside much else is frequent alone.
        let share = Double.random(in: 0.1...0.7, using: &random)
        for event in Event.allCases {
            var own = event.generator(seed: ~seed)
            let isIn = own.chance(share)
            let mean = Double.random(in: 0.3...10, using: &own)
            self.means[event] = mean
            if isIn { self.events[event] = mean }
        }
        self.hasReplica = random.chance(0.7)
        self.registrations = Int.random(in: 1...3, using: &random)
        self.masters = random.chance(0.6) ? 1 : Int.random(in: 2...3, using: &random)
        self.apps = random.chance(0.6) ? 1 : Self.appsMax
        self.isEncrypted = random.chance(0.3)
        self.hasWebhook = random.chance(0.4)
    }

    /// The mean seconds between two events of each kind that takes place; nil: as drawn.
    package var meanSeconds: Double? {
        didSet { for event in self.events.keys { self.set(event, true) } }
    }

    /// Makes a kind of event take place, or not.
    package mutating func set(_ event: Event, _ takesPlace: Bool) {
        self.events[event] = takesPlace ? self.meanSeconds ?? self.means[event] : nil
    }

    /// True when a copy of Redis' keys is kept, because a server may begin with it.
    var hasCopy: Bool { self.events[.redisLoss] != nil }

    /// The words of a command that repeats it, without the program's name.
    package var command: String {
        let drawn = SimulationPlan(seed: self.seed)
        var words = ["--seed \(self.seed)"]
        if self.dispatchers != drawn.dispatchers { words.append("--dispatchers \(self.dispatchers)") }
        if self.feedbacks != drawn.feedbacks { words.append("--feedbacks \(self.feedbacks)") }
        if self.registrations != drawn.registrations { words.append("--registrations \(self.registrations)") }
        if self.masters != drawn.masters { words.append("--masters \(self.masters)") }
        if self.apps != drawn.apps { words.append("--apps \(self.apps)") }
        if self.isEncrypted != drawn.isEncrypted { words.append("--encrypted \(self.isEncrypted)") }
        if self.hasWebhook != drawn.hasWebhook { words.append("--webhook \(self.hasWebhook)") }
        if self.devices != drawn.devices { words.append("--devices \(self.devices)") }
        if self.sends != drawn.sends { words.append("--sends \(self.sends)") }
        let left = drawn.events.keys.filter { self.events[$0] == nil }.map(\.rawValue).sorted()
        if !left.isEmpty { words.append("--without \(left.joined(separator: ","))") }
        let added = self.events.keys.filter { drawn.events[$0] == nil }.map(\.rawValue).sorted()
        if !added.isEmpty { words.append("--with \(added.joined(separator: ","))") }
        if let meanSeconds { words.append("--every \(meanSeconds)") }
        if self.endSeconds != drawn.endSeconds { words.append("--end-within \(self.endSeconds)") }
        return words.joined(separator: " ")
    }

    /// The plans with a little less, which are tried when this one fails; the largest step first.
    package var smaller: [SimulationPlan] {
        var plans: [SimulationPlan] = []
        func add(_ change: (inout SimulationPlan) -> Void) {
            var plan = self
            change(&plan)
            if plan != self { plans.append(plan) }
        }
        for event in self.events.keys.sorted(by: { $0.rawValue < $1.rawValue }) { add { $0.events[event] = nil } }
        add { $0.dispatchers = 1 }
        add { $0.feedbacks = 1 }
        add { $0.registrations = 1 }
        add { $0.masters = 1 }
        add { $0.apps = 1 }
        add { $0.isEncrypted = false }
        add { $0.hasWebhook = false }
        add { $0.sends = max(1, $0.sends / 2) }
        add { $0.sends = max(1, $0.sends - 1) }
        add { $0.devices = max($0.apps, $0.devices / 2) }
        add { $0.devices = max($0.apps, $0.devices - 1) }
        return plans
    }
}
