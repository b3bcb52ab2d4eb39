internal import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTerminal
internal import Synchronization

/// Measures how many recipients of open sends end in a second.
final class RateSampler: Sendable {
    /// The pause between two samples.
    static let interval = Duration.seconds(2)

    private let ends = Mutex(EndRates())
    private let streams: SendStreams

    init(_ streams: SendStreams) { self.streams = streams }

    /// Returns the recipients that ended in a second, of some apps, the newest last.
    func rates(of apps: [String]) -> [Double] { self.ends.withLock { $0.rates(of: apps) } }

    /// Takes samples until it is cancelled. What cannot be read is left out.
    func run() async {
        while !Task.isCancelled {
            let reach = await Reachability(of: self.streams)
            let now = ContinuousClock.now
            if let open = try? await self.streams.sendLists.open(in: reach.shards) {
                let counts: [(send: SendKey, ended: UInt64)] = open.map { entry in
                    (send: entry.send, ended: entry.ledger.counts.reduce(0) { $0 + $1.count })
                }
                self.ends.withLock { $0.add(counts, at: now) }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }
}

/// The recipients of open sends that ended in a second, by app and sample. Pure.
struct EndRates {
    /// The maximum of samples that are kept: those of four minutes.
    static let countMax = 120

    private var ended: [SendKey: UInt64] = [:]
    private var byApp: [String: [Double]] = [:]
    private var samples = 0
    /// The time of the last sample.
    private var sampledAt: ContinuousClock.Instant?

    /// Returns the rates of some apps together, the newest last.
    func rates(of apps: [String]) -> [Double] {
        let known = apps.compactMap { self.byApp[$0] }
        return (0..<self.samples).map { index in
            known.reduce(0) { sum, rates in
                // An app that came later has fewer samples, which are the newest.
                let offset = index - (self.samples - rates.count)
                return sum + (offset >= 0 ? rates[offset] : 0)
            }
        }
    }

    /// Adds a sample: how many recipients of each open send have ended by now.
    mutating func add(_ counts: [(send: SendKey, ended: UInt64)], at now: ContinuousClock.Instant) {
        var (more, ended) = ([String: UInt64](), [SendKey: UInt64]())
        for (send, count) in counts {
            ended[send] = count
            // A send that is seen for the first time may have begun long ago.
            guard let before = self.ended[send] else { continue }
            more[send.app, default: 0] += count > before ? count - before : 0
        }
        // A sample takes longer while a part of Redis does not answer.
        let seconds = self.sampledAt.map { (now - $0) / .seconds(1) } ?? 0
        for app in Set(self.byApp.keys).union(ended.keys.map(\.app)) {
            let rate = seconds > 0 ? Double(more[app] ?? 0) / seconds : 0
            self.byApp[app] = Array(((self.byApp[app] ?? []) + [rate]).suffix(Self.countMax))
        }
        self.ended = ended
        self.sampledAt = now
        self.samples = min(Self.countMax, self.samples + 1)
    }
}
