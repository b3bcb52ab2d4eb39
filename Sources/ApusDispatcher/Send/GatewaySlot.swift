internal import ApusCore
internal import ApusProviders
internal import NIOCore

/// Holds the gateway that is sent with, its successor, those that drain, and the runs that wait for their turn there.
final class GatewaySlot {
    /// The one that is sent with.
    private(set) var gateway: ProviderGateway
    var waiting = WaitingRuns()
    /// Takes the gateway's place as soon as it can send.
    private var next: ProviderGateway?
    /// Gateways that were replaced and still owe answers.
    private var draining: [ProviderGateway] = []
    /// What retired gateways have done.
    private var retired = GatewayTotals()

    init(_ gateway: ProviderGateway) { self.gateway = gateway }

    /// How many recipients of a lane wait that the gateway has room for. It says when it has some, if it has none now.
    func recipientsWithRoom(_ lane: Lane) -> Int {
        self.waiting.hasAny(lane) && self.gateway.hasRoom(lane) ? self.waiting.recipients(lane) : 0
    }

    /// A gateway that is to take over. It is started here.
    func exchange(for gateway: ProviderGateway) {
        if let next { self.retire(next) }
        self.next = gateway
        gateway.start()
        // Denied now, it says when it has room.
        let isReady = gateway.hasRoom(.bulk)
        if isReady || self.gateway.isHeld { _ = self.tookOver(gateway) }
    }

    /// The configuration may be right again: whoever is held sends again, a successor as well.
    func restored() {
        self.gateway.restored()
        self.next?.restored()
    }

    /// Whether the gateway, whose credential is refused, gives way to its successor at once: that has another.
    func giveWay(_ gateway: ProviderGateway) -> Bool {
        guard gateway === self.gateway, let next else { return false }
        return self.tookOver(next)
    }

    /// Whether the gateway is, or has just become, the one that is sent with.
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

    /// Closes all when nothing of theirs is on the wire.
    func drain() -> EventLoopFuture<Void> {
        let gateways = [self.gateway] + self.draining + (self.next.map { [$0] } ?? [])
        return .andAllComplete(gateways.map { $0.drain() }, on: self.gateway.eventLoop)
    }

    /// How those stand that have connections.
    var statuses: [ProviderGatewayStatus] { ([self.gateway] + self.draining).map(\.status) }

    /// What they have done since the start.
    var counts: GatewayTotals {
        var counts = self.retired
        for status in self.statuses { counts.add(status.counts) }
        return counts
    }
}

/// Counts what gateways have done, retired ones included.
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
