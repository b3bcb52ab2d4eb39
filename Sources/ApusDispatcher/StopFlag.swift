internal import Synchronization

/// Raised once, when the process is to stop.
final class StopFlag: Sendable {
    private let raised = Atomic<Bool>(false)

    var isSet: Bool { self.raised.load(ordering: .relaxed) }

    func set() { self.raised.store(true, ordering: .relaxed) }
}
