internal import Dispatch
internal import Glibc
package import Logging
internal import Synchronization

/// Writes lines to a descriptor from a thread of its own. It never blocks its callers: when the descriptor is slower
/// than the log, lines are dropped and counted, the less important first.
package final class LogWriter: Sendable {
    /// The maximum bytes that may be queued before lines below warning are dropped.
    package static let ordinaryBytesMax = 1 << 20
    /// The maximum bytes that may be queued at all.
    package static let urgentBytesMax = 2 << 20

    private struct State {
        var waiting: [UInt8] = []
        var isWriting = false
        var dropped: Int64 = 0
    }

    private let descriptor: Int32
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "apus.log", qos: .utility)

    /// Creates a writer to the given descriptor, which the caller still owns.
    package init(descriptor: Int32) { self.descriptor = descriptor }

    /// Queues a line; returns false when it is dropped.
    package func write(_ line: [UInt8], level: Logger.Level) -> Bool {
        let limit = level >= .warning ? Self.urgentBytesMax : Self.ordinaryBytesMax
        let (isTaken, mustStart) = self.state.withLock { state in
            guard state.waiting.count + line.count <= limit else {
                state.dropped += 1
                return (false, false)
            }
            state.waiting += line
            let mustStart = !state.isWriting
            state.isWriting = true
            return (true, mustStart)
        }
        if mustStart { self.queue.async { self.drain() } }
        return isTaken
    }

    /// The number of lines dropped so far.
    package var dropped: Int64 { self.state.withLock(\.dropped) }

    /// Waits until all queued lines are written, but at most for the given time: the descriptor may accept no more.
    package func flush(within limit: Duration) {
        let work = DispatchWorkItem { self.drain() }
        self.queue.async(execute: work)
        _ = work.wait(timeout: .now() + .milliseconds(Int(limit / .milliseconds(1))))
    }

    private func drain() {
        while true {
            let bytes = self.state.withLock { state in
                let bytes = state.waiting
                state.waiting = []
                state.isWriting = !bytes.isEmpty
                return bytes
            }
            guard !bytes.isEmpty else { return }
            // A failure to write the log cannot be logged.
            writeAll(bytes, to: self.descriptor)
        }
    }
}

/// Writes all bytes to a descriptor, waiting while it accepts none; stops at the first error.
func writeAll(_ bytes: [UInt8], to descriptor: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        if count < 0, errno == EAGAIN {
            var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            _ = unsafe Glibc.poll(&poll, 1, -1)
            continue
        }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}
