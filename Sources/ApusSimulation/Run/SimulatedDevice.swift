internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStore

/// The registration of a device.
struct DeviceState: Hashable, Sendable {
    var token: String
    var user: String
    /// The topics that it is in, in the order of all.
    var topics: [String]
}

/// A device, with everything that it was registered as, and when.
///
/// A change counts from some moment between its begin and the answer to it. In between, and when Redis has forgotten it, either state may be in force.
final class SimulatedDevice: @unchecked Sendable {
    struct Change {
        let begin: Int64
        var end: Int64?
        /// The state; nil when the device was deleted.
        let state: DeviceState?
        /// The number of writes of each master when it was answered, if one may forget it with later ones; nil while there is no answer, and
        /// when a replica has the change.
        var writes: [Int]?
    }

    /// The app that it has installed: devices of several apps have the same ids, users and topics.
    let app: String
    let id: String
    let provider: Provider
    private(set) var changes: [Change] = []
    /// The tokens that the provider has told to be dead, with the time.
    var deadTokens: [String: Int64] = [:]
    /// The number of the change that is under way, if one is.
    private var current: Int?

    /// True when it registers itself over HTTP, or its backend imports it; otherwise that writes into the register stream.
    let usesHTTP: Bool
    /// The time before which it asks for nothing new: an attempt that was not answered may be carried out until then.
    var quietUntil: Int64 = 0

    init(app: String, id: String, provider: Provider, usesHTTP: Bool) {
        self.app = app
        self.id = id
        self.provider = provider
        self.usesHTTP = usesHTTP
    }

    /// True while a change is under way: a device makes one at a time.
    var isChanging: Bool { self.current != nil }

    /// Its name in reports.
    var name: String { "\(self.app)/\(self.id)" }

    /// The state that was last asked for.
    var latest: DeviceState? { self.changes.last?.state }

    /// Returns the request that registers it with all of a state, or deletes it.
    func request(for state: DeviceState?) -> RegistrationCommand.Action {
        guard let state else { return .unregister(device: self.id) }
        var registration = DeviceRegistration(device: self.id, provider: self.provider, token: state.token)
        registration.user = state.user
        registration.topics = state.topics
        if self.provider == .webpush {
            let browser = SimulatedBrowser(endpoint: state.token)
            registration.webpushP256DH = Base64URL.decode(browser.p256dh) ?? []
            registration.webpushAuth = Base64URL.decode(browser.auth) ?? []
        }
        return .register(registration)
    }

    /// Returns the line of an import that registers it with all of a state.
    func line(for state: DeviceState) -> String {
        var line: JSONObject = [
            "device": .string(self.id), "provider": .string(self.provider.name), "token": .string(state.token),
            "topics": .array(state.topics.map { .string($0) }),
        ]
        if !state.user.isEmpty { line["user"] = .string(state.user) }
        if self.provider == .webpush {
            let browser = SimulatedBrowser(endpoint: state.token)
            line["webpush_p256dh"] = .string(browser.p256dh)
            line["webpush_auth"] = .string(browser.auth)
        }
        return JSONValue.object(line).text
    }

    /// Returns the request that changes what an event of a device changes.
    func request(for event: SimulationPlan.Event, _ state: DeviceState) -> RegistrationCommand.Action {
        switch event {
        case .login: .bindUser(device: self.id, user: state.user)
        case .logout: .unbindUser(device: self.id)
        case .topic: self.request(for: state.topics, from: self.latest?.topics ?? [])
        default: self.request(for: state)
        }
    }

    /// Returns the request that enters what is new among its topics, or leaves what it has left: one of both.
    private func request(for topics: [String], from former: [String]) -> RegistrationCommand.Action {
        let new = topics.filter { !former.contains($0) }
        guard new.isEmpty else { return .subscribe(device: self.id, topics: new) }
        return .unsubscribe(device: self.id, topics: former.filter { !topics.contains($0) })
    }

    /// Returns the token of a record as the app has named it.
    func token(stored bytes: [UInt8]) -> String {
        self.changes.lazy.compactMap { $0.state?.token }.first {
            (try? DeviceToken.stored($0, of: self.provider)) == bytes
        } ?? "a token that it never had"
    }

    func begin(_ state: DeviceState?, at time: Int64) {
        self.current = self.changes.count
        self.changes.append(Change(begin: time, end: nil, state: state))
    }

    /// Notes that it may be removed from now on with its user: what it is asked for meanwhile may come before or after that. A log-in that comes
    /// after it, though it is older, leaves the device to nobody.
    func mayBeRemoved(at time: Int64) {
        if var state = self.loginUnderWay {
            state.user = ""
            self.changes.append(Change(begin: time, end: nil, state: state))
        }
        self.changes.append(Change(begin: time, end: nil, state: nil))
    }

    /// The state that a log-in through the register stream asks for, if one may be under way: a change of the user alone.
    private var loginUnderWay: DeviceState? {
        guard !self.usesHTTP, let current, current > 0, let state = self.changes[current].state,
            var former = self.changes[current - 1].state
        else { return nil }
        former.user = state.user
        return former == state ? state : nil
    }

    /// - Parameter writes: the number of writes of each master, if one may forget the change with later ones.
    func end(at time: Int64, writes: [Int]?) {
        guard let current = self.current else { return }
        self.changes[current].end = time
        self.changes[current].writes = writes
        self.current = nil
    }

    /// Notes that a master has kept that many writes only: a later change may have taken place or not.
    func forget(after writes: Int, of master: Int) {
        for index in self.changes.indices where self.changes[index].writes.map({ $0[master] > writes }) ?? false {
            self.changes[index].end = nil
            self.changes[index].writes = nil
        }
    }

    /// The states that may have been in force at some moment between two times.
    func states(from start: Int64, to end: Int64) -> [DeviceState?] {
        var states: [DeviceState?] = []
        var isFirst = true
        for (index, change) in self.changes.enumerated() {
            // It may last until a later change is known to have taken place.
            let last = self.changes[(index + 1)...].compactMap(\.end).first ?? .max
            if change.begin <= end, last >= start {
                // Before the first change there was nothing.
                if isFirst, index == 0, change.end ?? .max >= start { states.append(nil) }
                isFirst = false
                states.append(change.state)
            }
        }
        return states.isEmpty ? [nil] : states
    }
}
