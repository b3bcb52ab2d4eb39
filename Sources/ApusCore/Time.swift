/// A point in time: milliseconds since 1970-01-01 UTC.
///
/// This is the unit of Redis' `TIME`, of providers' timestamps and of messages. Deciding code never reads a clock: the time is an argument.
public struct UnixMilliseconds: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number of milliseconds.
    public let value: Int64

    /// Creates a time.
    public init(_ value: Int64) { self.value = value }

    /// Creates a time from whole seconds, limited to the range.
    public init(seconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        guard overflow else {
            self.value = product
            return
        }
        self.value = seconds > 0 ? .max : .min
    }

    /// The whole seconds, rounded down.
    public var seconds: Int64 { self.value >= 0 ? self.value / 1_000 : (self.value + 1) / 1_000 - 1 }

    /// Returns a time later by the given milliseconds, limited to the range.
    public func advanced(byMilliseconds milliseconds: Int64) -> UnixMilliseconds {
        let (sum, overflow) = self.value.addingReportingOverflow(milliseconds)
        guard overflow else { return UnixMilliseconds(sum) }
        return UnixMilliseconds(milliseconds > 0 ? .max : .min)
    }

    /// Returns the milliseconds from `earlier` to self; negative when self is the earlier one.
    public func milliseconds(since earlier: UnixMilliseconds) -> Int64 {
        let (difference, overflow) = self.value.subtractingReportingOverflow(earlier.value)
        guard overflow else { return difference }
        return self > earlier ? .max : .min
    }

    /// The number in decimal digits.
    public var description: String { String(self.value) }

    /// Orders earlier times first.
    public static func < (one: UnixMilliseconds, other: UnixMilliseconds) -> Bool { one.value < other.value }
}

/// Reads the time of day for drivers; tests and simulations provide their own.
public protocol WallClock: Sendable {
    /// Returns the nanoseconds since 1970-01-01 UTC.
    func nanosecondsSince1970() -> Int64
}

extension WallClock {
    /// Returns the time in milliseconds.
    public func now() -> UnixMilliseconds { UnixMilliseconds(self.nanosecondsSince1970() / 1_000_000) }
}

/// Returns the result of some work, or nil when it takes too long; the work is then cancelled, but not waited for.
@discardableResult
package func firstWithin<Result: Sendable>(
    _ limit: Duration,
    _ work: @escaping @Sendable () async -> Result,
) async -> Result? {
    let (stream, continuation) = AsyncStream<Result?>.makeStream(bufferingPolicy: .bufferingOldest(1))
    let working = Task { continuation.yield(await work()) }
    let waiting = Task {
        try? await Task.sleep(for: limit)
        continuation.yield(nil)
    }
    defer {
        working.cancel()
        waiting.cancel()
    }
    for await result in stream { return result }
    return nil
}
