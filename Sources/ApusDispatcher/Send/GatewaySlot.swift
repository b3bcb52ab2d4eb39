internal import ApusCore
internal import ApusProviders
internal import NIOCore

/// Holds the gateway in use, its successor, the gateways that drain, and the runs that wait for their turn.
final class GatewaySlot {
    /// The gateway in use.
    private(set) var gateway: ProviderGateway
    var waiting = WaitingRuns()
    /// The successor. It replaces the gateway as soon as it can send.
    private var next: ProviderGateway?
    /// The replaced gateways that still await answers.
    private var draining: [ProviderGateway] = []
    /// The totals of retired gateways.
    private var retired = GatewayTotals()

    init(_ gateway: ProviderGateway) { self.gateway = gateway }

    /// Returns the number of waiting recipients of a lane if the gateway has room, and 0 otherwise. The gateway then
    /// reports when it has room again.
    func recipientsWithRoom(_ lane: Lane) -> Int {
        self.waiting.hasAny(lane) && self.gateway.hasRoom(lane) ? self.waiting.recipients(lane) : 0
    }

    /// Starts a gateway as the successor.
    func exchange(for gateway: ProviderGateway) {
        if let next { self.retire(next) }
        self.next = gateway
        gateway.start()
        // After this returned false, the gateway reports when it has room.
        let isReady = gateway.hasRoom(.bulk)
        if isReady || self.gateway.isHeld { _ = self.tookOver(gateway) }
    }

    /// Resumes held gateways, the successor too, because the configuration may be correct again.
    func restored() {
        self.gateway.restored()
        self.next?.restored()
    }

    /// Replaces a gateway whose credential is refused by its successor, which has another credential. Returns false if
    /// there is no successor, or if the gateway is not in use.
    func giveWay(_ gateway: ProviderGateway) -> Bool {
        guard gateway === self.gateway, let next else { return false }
        return self.tookOver(next)
    }

    /// Replaces the gateway in use if the given one is its successor. Returns true if the given gateway is now in use.
    func tookOver(_ gateway: ProviderGateway) -> Bool {
        if gateway === self.gateway { return true }
        guard gateway === self.next else { return false }
        self.next = nil
        let old = self.gateway
        self.gateway = gateway
        self.retire(old)
        return true
    }

    private func retire(_ gateway: ProviderGateway) {
        self.draining.append(gateway)
        gateway.drain().assumeIsolated().whenComplete { _ in
            self.draining.removeAll { $0 === gateway }
            self.retired.add(gateway.status.counts)
        }
    }

    /// Closes all gateways after their last answers.
    func drain() -> EventLoopFuture<Void> {
        let gateways = [self.gateway] + self.draining + (self.next.map { [$0] } ?? [])
        return .andAllComplete(gateways.map { $0.drain() }, on: self.gateway.eventLoop)
    }

    /// The status of each gateway that has connections.
    var statuses: [ProviderGatewayStatus] { ([self.gateway] + self.draining).map(\.status) }

    /// The totals of all gateways since the start.
    var counts: GatewayTotals {
        var counts = self.retired
        for status in self.statuses { counts.add(status.counts) }
        return counts
    }
}

/// The sums of what gateways have done, including retired ones.
struct GatewayTotals {
    private(set) var payloadBytes: UInt64 = 0
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private(set) var goAways: [GoAwayCode: UInt64] = [:]
    private(set) var handshakes: UInt64 = 0
    private(set) var failures: [ConnectFailure: UInt64] = [:]

    mutating func add(_ counts: ProviderGatewayCounts) {
        self.payloadBytes += counts.payloadBytes
        self.bytesSent += counts.bytesSent
        self.bytesReceived += counts.bytesReceived
        self.goAways.merge(counts.goAways, uniquingKeysWith: +)
        self.handshakes += counts.handshakes
        self.failures.merge(counts.failures, uniquingKeysWith: +)
    }
}
