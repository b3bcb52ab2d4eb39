internal import Synchronization

/// Decides what it means when a push service refuses a credential: that this service is to rest, or that the credential is at fault.
///
/// Anybody may register an address at a service of their own, or one that is bound to another server's key. One service's
/// refusal therefore never stops the others: two services must refuse, and none may have accepted lately. The gateways of
/// all event loops that use a credential share its verdicts. Another process may know better: see ``isAccepted(now:)``. Times are nanoseconds of
/// one monotonic clock.
package final class OriginVerdicts: Sendable {
    /// The time for which an acceptance and a refusal count.
    static let countsFor: UInt64 = 600_000_000_000
    /// The number of services whose refusals say that the credential is at fault.
    static let servicesMin = 2

    private struct State {
        var acceptedAt: UInt64?
        /// The time at which somebody else said that the credential is not at fault.
        var restoredAt: UInt64?
        /// The times of the last refusals, by service.
        var refusedAt: [Substring: UInt64] = [:]
    }

    private let state = Mutex(State())

    /// Creates the verdicts of a credential that no service has seen yet.
    package init() {}

    /// Records that a service accepted the credential. One whose host anybody may name does not count.
    package func accepted(now: UInt64) {
        self.state.withLock { state in
            state.acceptedAt = now
            state.refusedAt.removeAll()
        }
    }

    /// Returns true if a service has accepted the credential lately: then it is not at fault, whatever another process has found.
    package func isAccepted(now: UInt64) -> Bool { self.state.withLock { Self.isRecent($0.acceptedAt, now: now) } }

    private static func isRecent(_ time: UInt64?, now: UInt64) -> Bool {
        time.map { now < $0 + Self.countsFor } ?? false
    }

    /// Records that a service refuses the credential. Returns true when the credential is at fault.
    func refused(by host: String, _ trust: HostTrust, now: UInt64) -> Bool {
        // Of hosts that anybody may name, there is no limit to how many refuse.
        guard trust != .unknown else { return false }
        return self.state.withLock { state in
            let isGood = Self.isRecent(state.acceptedAt, now: now) || Self.isRecent(state.restoredAt, now: now)
            guard !isGood else { return false }
            state.refusedAt = state.refusedAt.filter { now < $0.value + Self.countsFor }
            state.refusedAt[Self.service(of: host)] = now
            return state.refusedAt.count >= Self.servicesMin
        }
    }

    /// Forgets all refusals, because an operator or another process, whose requests are accepted, says that the credential is not at fault. For
    /// as long as an acceptance counts, services rest that refuse it, and nothing else follows.
    func restored(now: UInt64) {
        self.state.withLock { state in
            state.restoredAt = now
            state.refusedAt.removeAll()
        }
    }

    /// Returns the domain of a host, such as `windows.com` of `wns2-par02p.notify.windows.com`: a service has many hosts.
    private static func service(of host: String) -> Substring {
        let labels = host.split(separator: ".")
        guard labels.count > 2, let first = labels.suffix(2).first else { return host[...] }
        return host[first.startIndex...]
    }
}
