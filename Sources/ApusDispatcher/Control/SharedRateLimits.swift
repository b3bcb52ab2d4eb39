internal import ApusStreams
internal import NIOCore

/// Requests grants from Redis for all event loops of a process together: the process is one member of each rate limit, whatever its cores.
///
/// Requests that come within ``gatherTime`` of each other share a call, and the loops ask at the same moments (``RateLimitClient``). One
/// call of a limit is under way at a time; what comes meanwhile shares the next one.
final class SharedRateLimits: RateLimitSource {
    /// The time for which a request waits for those of the other loops.
    static let gatherTime: TimeAmount = .microseconds(500)

    /// A request of an event loop.
    private struct Waiting {
        var request: RateLimitRequest
        var ratePerSecond: Double?
        var promise: EventLoopPromise<RateLimitGrant>
    }

    /// The requests of one limit. There is one of each event loop at most.
    private final class Line {
        var waiting: [Waiting] = []
        var isAsking = false
        var timer: Scheduled<Void>?
    }

    private let streams: SendStreams
    private let member: String
    private let loopCount: Int
    private let eventLoop: any EventLoop
    private let lines: NIOLoopBoundBox<[RateLimit: Line]>

    /// Spreads the processes over the interval.
    let phaseNanoseconds: UInt64

    /// Creates a source.
    ///
    /// - Parameters:
    ///   - member: the name of the process.
    ///   - loopCount: the number of event loops that request grants.
    ///   - eventLoop: the loop of its own calls, one of the streams' client.
    init(streams: SendStreams, member: String, loopCount: Int, eventLoop: any EventLoop) {
        self.streams = streams
        self.member = member
        self.loopCount = loopCount
        self.eventLoop = eventLoop
        self.lines = .makeBoxSendingValue([:], eventLoop: eventLoop)
        // FNV-1a, of which any other hash would do.
        let hash = member.utf8.reduce(14_695_981_039_346_656_037 as UInt64) { hash, byte in
            (hash ^ UInt64(byte)) &* 1_099_511_628_211
        }
        self.phaseNanoseconds = hash % 1_000_000_000
    }

    func grant(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant> {
        let promise = eventLoop.makePromise(of: RateLimitGrant.self)
        self.eventLoop.execute {
            let line = self.lines.value[limiter] ?? Line()
            self.lines.value[limiter] = line
            line.waiting.append(Waiting(request: request, ratePerSecond: ratePerSecond, promise: promise))
            guard !line.isAsking else { return }
            if request.isUrgent || line.waiting.count >= self.loopCount { return self.ask(limiter, line) }
            guard line.timer == nil else { return }
            line.timer = self.eventLoop.assumeIsolated().scheduleTask(in: Self.gatherTime) { self.ask(limiter, line) }
        }
        return promise.futureResult
    }

    private func ask(_ limiter: RateLimit, _ line: Line) {
        line.timer?.cancel()
        line.timer = nil
        guard let first = line.waiting.first, !line.isAsking else { return }
        // While a configuration is being replaced the loops differ for a moment.
        let together = line.waiting.filter {
            $0.request.configurationFingerprint == first.request.configurationFingerprint
                && $0.ratePerSecond == first.ratePerSecond
        }
        line.waiting.removeAll {
            $0.request.configurationFingerprint == first.request.configurationFingerprint
                && $0.ratePerSecond == first.ratePerSecond
        }
        line.isAsking = true
        let requests = together.map(\.request)
        self.streams.rateLimits.request(
            RateLimitRequest(of: requests),
            of: limiter,
            by: self.member,
            ratePerSecond: first.ratePerSecond,
            on: self.eventLoop,
        ).assumeIsolated().whenComplete { result in
            switch result {
            case .success(let grant):
                for (waiting, part) in zip(together, grant.divided(among: requests)) { waiting.promise.succeed(part) }
            case .failure(let error):
                for waiting in together { waiting.promise.fail(error) }
            }
            line.isAsking = false
            if line.waiting.isEmpty {
                // A send's limit is not asked for again after its end.
                self.lines.value[limiter] = nil
            } else {
                self.ask(limiter, line)
            }
        }
    }
}

extension RateLimitRequest {
    /// Creates the request of several event loops of one process.
    init(of requests: [RateLimitRequest]) {
        self.init()
        guard requests.count > 1 else {
            if let only = requests.first { self = only }
            return
        }
        for request in requests {
            self.use += request.missing
            self.ahead += max(0, request.ahead - max(0, request.held - request.use))
            self.used += request.used
            self.refusals += request.refusals
            self.pauseMilliseconds = max(self.pauseMilliseconds, request.pauseMilliseconds)
            self.fault = self.fault ?? request.fault
            self.configurationFingerprint = request.configurationFingerprint
            if self.thirdPartyAuthError.isEmpty || request.thirdPartyAuthError != Self.noLonger,
                !request.thirdPartyAuthError.isEmpty
            {
                self.thirdPartyAuthError = request.thirdPartyAuthError
            }
            // One loop that reaches the provider is enough.
            if self.connectionFault != Self.noLonger, !request.connectionFault.isEmpty {
                self.connectionFault = request.connectionFault
            }
            self.subroutes.merge(request.subroutes) { $0 == .accepted ? $1 : $0 }
            self.isUrgent = self.isUrgent || request.isUrgent
        }
    }

    /// The permits that it lacks for what would be used at once.
    var missing: Int { max(0, self.use - self.held) }
}

extension RateLimitGrant {
    /// Divides what several event loops have requested together: first what each lacks, the same for each until it has that; then what is
    /// ahead.
    func divided(among requests: [RateLimitRequest]) -> [RateLimitGrant] {
        guard let permits = self.permits, requests.count > 1 else {
            return Array(repeating: self, count: requests.count)
        }
        var left = permits
        var parts = Array(repeating: 0, count: requests.count)
        for wanted in [requests.map(\.missing), requests.map { $0.missing + $0.ahead }] {
            while left > 0 {
                let hungry = parts.indices.filter { parts[$0] < wanted[$0] }
                guard !hungry.isEmpty else { break }
                let share = max(1, left / hungry.count)
                for index in hungry where left > 0 {
                    let part = min(share, wanted[index] - parts[index], left)
                    parts[index] += part
                    left -= part
                }
            }
        }
        // More than was wanted, which Redis does not give.
        parts[0] += left
        return parts.map { part in
            var grant = self
            grant.permits = part
            return grant
        }
    }
}
