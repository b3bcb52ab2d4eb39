internal import ApusNetwork
internal import Glibc
internal import NIOCore

/// The network between the processes of a simulated fleet: each direction of a connection keeps its order and has latencies of its own, any
/// connection may be cut at any moment with what is under way.
final class SimulatedNetwork: @unchecked Sendable {
    /// The faults of the network.
    struct Faults {
        /// The longest usual latency of a piece of bytes.
        var latencyNanosecondsMax: Int64 = 400_000
        /// The share of pieces that take a hundred times as long.
        var slowShare = 0.0
        /// The share of writes that arrive in two pieces.
        var splitShare = 0.1
    }

    private struct Listener {
        let loop: SimulatedLoop
        let channel: SimulatedChannel
        let initialize: @Sendable (any Channel) -> EventLoopFuture<Void>
    }

    private final class Link {
        let ends: [SimulatedChannel]
        var arrivals: [Int64] = [0, 0]
        var isCut = false

        init(_ one: SimulatedChannel, _ other: SimulatedChannel) { self.ends = [one, other] }
    }

    private let scheduler: Scheduler
    var faults = Faults()
    /// Is called with both processes of the next bytes that are sent, until it returns true.
    var watch: ((_ sender: SimulatedProcess, _ receiver: SimulatedProcess) -> Bool)?
    /// Decides whether bytes are lost with their sender, which dies of them.
    var isDeadly: ((_ sender: SimulatedProcess, _ receiver: SimulatedProcess, _ bytes: ByteBuffer) -> Bool)?
    /// The listeners of each port: processes of one service share it, as behind a balancer.
    private var listeners: [Int: [Listener]] = [:]
    private var links: [Link] = []
    /// The ports that refuse connections, with the time until which they do.
    private var refusing: [Int: Int64] = [:]

    init(_ scheduler: Scheduler) { self.scheduler = scheduler }

    /// Accepts connections at a port.
    func listen(
        _ loop: SimulatedLoop,
        at port: Int,
        _ initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> SimulatedChannel {
        let channel = SimulatedChannel(loop)
        self.listeners[port, default: []].append(Listener(loop: loop, channel: channel, initialize: initialize))
        channel.onClose = { self.listeners[port]?.removeAll { $0.channel === channel } }
        return channel
    }

    private func latency() -> Int64 {
        let usual = Int64.random(in: 20_000...self.faults.latencyNanosecondsMax, using: &self.scheduler.random)
        return self.scheduler.random.chance(self.faults.slowShare) ? usual * 100 : usual
    }

    /// Opens a connection.
    func connect(
        _ loop: SimulatedLoop,
        to address: NetworkAddress,
        timeout: TimeAmount,
        _ initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel> {
        guard case .host(_, let port) = address else {
            return loop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        let promise = loop.makePromise(of: (any Channel).self)
        let late = loop.scheduleTask(in: timeout) { promise.fail(ChannelError.connectTimeout(timeout)) }
        promise.futureResult.whenComplete { _ in late.cancel() }
        // The request travels there, the answer back.
        let there = self.scheduler.now + self.latency()
        self.scheduler.call(at: there, for: nil) {
            let back = self.scheduler.now + self.latency()
            guard let listener = self.listener(at: port),
                self.refusing[port] ?? 0 <= self.scheduler.now
            else {
                return self.scheduler.call(at: back, for: loop.process) {
                    loop.add { promise.fail(IOError(errnoCode: ECONNREFUSED, reason: "connect")) }
                }
            }
            let (client, server) = (SimulatedChannel(loop), SimulatedChannel(listener.loop))
            let link = Link(client, server)
            self.join(link)
            listener.loop.add { self.open(server, listener.initialize, nil) }
            self.scheduler.call(at: back, for: loop.process) { loop.add { self.open(client, initialize, promise) } }
        }
        return promise.futureResult
    }

    private func listener(at port: Int) -> Listener? {
        let listeners = (self.listeners[port] ?? []).filter { !$0.loop.process.isDead }
        guard listeners.count > 1 else { return listeners.first }
        return listeners[Int.random(in: 0..<listeners.count, using: &self.scheduler.random)]
    }

    private func open(
        _ channel: SimulatedChannel,
        _ initialize: @Sendable (any Channel) -> EventLoopFuture<Void>,
        _ promise: EventLoopPromise<any Channel>?,
    ) {
        initialize(channel).assumeIsolated().whenComplete { result in
            switch result {
            case .success:
                promise?.succeed(channel)
                channel.activate()
            case .failure(let error):
                promise?.fail(error)
                channel.close(promise: nil)
            }
        }
    }

    private func join(_ link: Link) {
        self.links.append(link)
        for side in 0...1 {
            let (here, there) = (link.ends[side], link.ends[1 - side])
            here.onWrite = { [weak link] bytes in
                guard let link else { return }
                self.send(bytes, link, side, to: there)
            }
            here.onClose = { [weak link] in
                guard let link else { return }
                self.finish(link, side, to: there)
            }
        }
    }

    private func send(_ bytes: ByteBuffer, _ link: Link, _ side: Int, to channel: SimulatedChannel) {
        let (sender, receiver) = (link.ends[side].loop.process, channel.loop.process)
        if let isDeadly, isDeadly(sender, receiver, bytes) { return }
        if let watch, watch(sender, receiver) { self.watch = nil }
        var rest = bytes
        if bytes.readableBytes > 1, self.scheduler.random.chance(self.faults.splitShare) {
            let place = Int.random(in: 1..<bytes.readableBytes, using: &self.scheduler.random)
            if let first = rest.readSlice(length: place) { self.arrive(first, link, side, at: channel) }
        }
        self.arrive(rest, link, side, at: channel)
    }

    private func arrive(_ bytes: ByteBuffer, _ link: Link, _ side: Int, at channel: SimulatedChannel) {
        self.arrive(link, side, at: channel) { channel.receive(bytes) }
    }

    private func finish(_ link: Link, _ side: Int, to channel: SimulatedChannel) {
        self.arrive(link, side, at: channel) { channel.receiveEnd(nil) }
        self.links.removeAll { $0 === link }
    }

    private func arrive(_ link: Link, _ side: Int, at channel: SimulatedChannel, _ event: @escaping () -> Void) {
        link.arrivals[side] = max(link.arrivals[side] + 1, self.scheduler.now + self.latency())
        self.scheduler.call(at: link.arrivals[side], for: channel.loop.process) {
            channel.loop.add { if !link.isCut { event() } }
        }
    }

    // MARK: Faults

    /// The number of open connections.
    var count: Int { self.links.count }

    /// Returns true when a process has one end of a connection.
    func isEnd(_ process: SimulatedProcess?, of index: Int) -> Bool {
        self.links[index].ends.contains { $0.loop.process === process }
    }

    /// Cuts a connection: both ends notice, and what was under way is lost.
    func cut(_ index: Int) {
        let link = self.links.remove(at: index)
        link.isCut = true
        for channel in link.ends {
            let error = IOError(errnoCode: ECONNRESET, reason: "read")
            self.scheduler.call(at: self.scheduler.now + self.latency(), for: channel.loop.process) {
                channel.loop.add { channel.receiveEnd(error) }
            }
        }
    }

    /// Refuses connections to a port until a time.
    func refuse(_ port: Int, until time: Int64) { self.refusing[port] = max(time, self.refusing[port] ?? 0) }

    /// Cuts all connections of a process.
    func cutAll(of process: SimulatedProcess) {
        for index in self.links.indices.reversed()
        where self.links[index].ends.contains(where: { $0.loop.process === process }) {
            self.cut(index)
        }
    }

    /// Closes the connections of a process that was killed. What it had written still arrives.
    func process(_ process: SimulatedProcess, hasDied: Bool) {
        for link in self.links {
            for side in 0...1 where link.ends[side].loop.process === process {
                let other = link.ends[1 - side]
                self.arrive(link, side, at: other) { other.receiveEnd(nil) }
            }
        }
        self.links.removeAll { link in link.ends.contains { $0.loop.process === process } }
        for port in self.listeners.keys { self.listeners[port]?.removeAll { $0.loop.process === process } }
    }
}
