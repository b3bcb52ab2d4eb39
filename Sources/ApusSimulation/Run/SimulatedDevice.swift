internal import ApusCore
internal import ApusStore

/// The registration of a device.
struct DeviceState: Hashable, Sendable {
    var token: String
    var user: String
    var isSubscribed: Bool
}

/// A device, with everything that it was registered as, and when.
///
/// A change counts from some moment between its begin and the answer to it. In between, and when no answer came, either state may be in force.
final class SimulatedDevice: @unchecked Sendable {
    struct Change {
        let begin: Int64
        var end: Int64?
        /// The state; nil when the device was deleted.
        let state: DeviceState?
        /// The number of Redis' writes when it was answered, if Redis may forget it with later ones; nil while there is no answer, and when
        /// a replica has the change.
        var writes: Int?
    }

    let id: String
    let provider: Provider
    private(set) var changes: [Change] = []
    /// The tokens that the provider has told to be dead, with the time.
    var deadTokens: [String: Int64] = [:]
    /// True while a change is under way: a device makes one at a time.
    var isChanging = false

    init(id: String, provider: Provider) {
        self.id = id
        self.provider = provider
    }

    /// The state that was last asked for.
    var latest: DeviceState? { self.changes.last?.state }

    func begin(_ state: DeviceState?, at time: Int64) {
        self.changes.append(Change(begin: time, end: nil, state: state))
        self.isChanging = true
    }

    /// - Parameter writes: the number of Redis' writes, if Redis may forget the change with later ones.
    func end(at time: Int64, isKnown: Bool, writes: Int?) {
        if isKnown {
            self.changes[self.changes.count - 1].end = time
            self.changes[self.changes.count - 1].writes = writes
        }
        self.isChanging = false
    }

    /// Notes that Redis has kept that many writes only: a later change may have taken place or not.
    func forget(after writes: Int) {
        for index in self.changes.indices where self.changes[index].writes.map({ $0 > writes }) ?? false {
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
