internal import Dispatch
internal import Glibc

/// Turns signals of the process into calls on one queue, for as long as it lives.
final class SignalTrap {
    private let sources: [any DispatchSourceSignal]

    /// Replaces the effect of those signals by calls.
    init(_ signals: [Int32], _ handle: @escaping @Sendable (Int32) -> Void) {
        let queue = DispatchQueue(label: "apus.signals")
        self.sources = signals.map { number in
            // A dispatch source only watches; the signal's own effect must be switched off.
            _ = signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { handle(number) }
            source.activate()
            return source
        }
    }

    deinit {
        for source in self.sources { source.cancel() }
    }
}
