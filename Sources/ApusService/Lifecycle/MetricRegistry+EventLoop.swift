internal import ApusCore
public import ApusMetrics
public import NIOCore

extension MetricRegistry {
    /// The longest time that a scrape waits for an event loop; after that it uses the loop's last copy.
    static let copyDurationMax = Duration.seconds(1)

    /// Creates a metric shard that belongs to an event loop and registers it for scrapes.
    ///
    /// Read `value` once, on the loop, and keep it there with the rest of the loop's state.
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
