internal import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTerminal
internal import Synchronization

/// Measures how many recipients of open sends end in a second.
final class RateSampler: Sendable {
    /// The time between two samples.
    static let interval = Duration.seconds(2)
    /// The maximum of samples that are kept: those of four minutes.
    static let countMax = 120

    private struct State {
        var closed: [SendKey: UInt64] = [:]
        var rates: [String: [Double]] = [:]
        var samples = 0
    }

    private let state = Mutex(State())
    private let streams: SendStreams

    init(_ streams: SendStreams) { self.streams = streams }

    /// Returns the recipients that ended in a second, of some apps, the newest last.
    func rates(of apps: [String]) -> [Double] {
        self.state.withLock { state in
            let known = apps.compactMap { state.rates[$0] }
            return (0..<state.samples).map { index in
                known.reduce(0) { sum, rates in
                    // An app that came later has fewer samples, which are the newest.
                    let offset = index - (state.samples - rates.count)
                    return sum + (offset >= 0 ? rates[offset] : 0)
                }
            }
        }
    }

    /// Takes samples until it is cancelled. What cannot be read is left out.
    func run() async {
        while !Task.isCancelled {
            let reach = await Reachability(of: self.streams)
            if let open = try? await self.streams.sendLists.open(in: reach.shards) { self.add(open) }
            try? await Task.sleep(for: Self.interval)
        }
    }

    func add(_ open: [(send: SendKey, ledger: SendLedger)]) {
        self.state.withLock { state in
            var (ended, closed) = ([String: UInt64](), [SendKey: UInt64]())
            for (send, ledger) in open {
                let count = ledger.counts.reduce(0) { $0 + $1.count }
                closed[send] = count
                // A send that is seen for the first time may have begun long ago.
                guard let before = state.closed[send] else { continue }
                ended[send.app, default: 0] += count > before ? count - before : 0
            }
            for app in Set(state.rates.keys).union(closed.keys.map(\.app)) {
                let rate = Double(ended[app] ?? 0) / (Self.interval / .seconds(1))
                state.rates[app] = Array(((state.rates[app] ?? []) + [rate]).suffix(Self.countMax))
            }
            state.closed = closed
            state.samples = min(Self.countMax, state.samples + 1)
        }
    }
}
