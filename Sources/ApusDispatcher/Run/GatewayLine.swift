internal import ApusCore
internal import ApusProviders
internal import NIOCore

/// The gateways of a route on one event loop.
struct RouteGateways {
    /// To devices, and to channels if those have no address of their own.
    let notifications: ProviderGateway
    /// To channels.
    var broadcasts: ProviderGateway?
    /// A digest of what they are set up with.
    var setUp = ""
}

/// A gateway with its successor and those before it, and the runs that wait for their turn there.
final class GatewayLine {
    /// The one that is sent with.
    private(set) var gateway: ProviderGateway
    var waiting = WaitingRuns()
    /// Takes the gateway's place as soon as it can send.
    private var next: ProviderGateway?
    /// Gateways that were replaced and still owe answers.
    private var leaving: [ProviderGateway] = []
    /// What those did that are gone.
    private var past = GatewayPast()

    init(_ gateway: ProviderGateway) { self.gateway = gateway }

    /// How many recipients of a lane wait that the gateway has room for. It says when it has some, if it has none now.
    func recipientsWithRoom(_ lane: Lane) -> Int {
        self.waiting.hasAny(lane) && self.gateway.hasRoom(lane) ? self.waiting.recipients(lane) : 0
    }

    /// A gateway that is to take over. It is started here.
    func exchange(for gateway: ProviderGateway) {
        if let next { self.leave(next) }
        self.next = gateway
        gateway.start()
        // Denied now, it says when it has room.
        let isReady = gateway.hasRoom(.bulk)
        if isReady || self.gateway.isHeld { _ = self.tookOver(gateway) }
    }

    /// The set-up may be mended: whoever is held sends again, a successor as well.
    func mended() {
        self.gateway.mended()
        self.next?.mended()
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
        self.leave(old)
        return true
    }

    private func leave(_ gateway: ProviderGateway) {
        self.leaving.append(gateway)
        gateway.drain().assumeIsolated().whenComplete { _ in
            self.leaving.removeAll { $0 === gateway }
            self.past.add(gateway.status.counts)
        }
    }

    /// Closes all when nothing of theirs is on the wire.
    func drain() -> EventLoopFuture<Void> {
        let gateways = [self.gateway] + self.leaving + (self.next.map { [$0] } ?? [])
        return .andAllComplete(gateways.map { $0.drain() }, on: self.gateway.eventLoop)
    }

    /// How those stand that have connections.
    var statuses: [ProviderGatewayStatus] { ([self.gateway] + self.leaving).map(\.status) }

    /// What they have done since the start.
    var counts: GatewayPast {
        var counts = self.past
        for status in self.statuses { counts.add(status.counts) }
        return counts
    }
}

/// What gateways have done, those that are gone among them.
struct GatewayPast {
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
