internal import ApusCore
public import ApusMetrics
public import NIOCore

extension MetricRegistry {
    /// How long a scrape waits for a loop; then the loop's last copy stands in.
    package static let copyDurationMax = Duration.seconds(1)

    /// A shard that belongs to an event loop, registered for scrapes.
    ///
    /// Take `value` once, on the loop, and keep it there with the rest of the loop's state.
    public func makeShard(on eventLoop: any EventLoop) -> NIOLoopBoundBox<MetricShard> {
        let box = NIOLoopBoundBox.makeBoxSendingValue(self.makeShard(), eventLoop: eventLoop)
        self.register {
            let copy = await firstWithin(Self.copyDurationMax) {
                try? await eventLoop.submit { box.value.snapshot() }.get()
            }
            return copy ?? nil
        }
        return box
    }
}
