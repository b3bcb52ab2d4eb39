public import ApusCore

/// Counts the requests that each provider accepted in every ten milliseconds, for the last half hour at least.
public struct AcceptanceTimeline: Hashable, Sendable {
    /// The acceptances of one interval.
    public struct Bucket: Hashable, Sendable {
        /// The acceptances by the routes' numbers, from 1.
        fileprivate var counts = SIMD4<UInt32>()

        /// Returns the number of acceptances of a provider; nil for all.
        public func count(_ provider: Provider?) -> Int {
            Int((self.counts & AcceptanceTimeline.mask(provider)).wrappedSum())
        }
    }

    /// Returns a mask of the lanes of a provider's routes; nil for all.
    private static func mask(_ provider: Provider?) -> SIMD4<UInt32> {
        guard let provider else { return SIMD4(repeating: .max) }
        var mask = SIMD4<UInt32>()
        for route in FaultRoute.allCases where FaultRoute.provider(number: route.number) == provider {
            mask[Int(route.number) - 1] = .max
        }
        return mask
    }

    /// The length of an interval.
    public static let bucketNanoseconds: Int64 = 10_000_000
    /// The maximum number of intervals that are kept: an hour. Beyond it the older half is dropped.
    public static let bucketsMax = 360_000

    /// The number of the first interval, counted from 1970.
    private var first: Int64 = 0
    /// The consecutive intervals.
    public private(set) var buckets: [Bucket] = []

    init() {}

    /// The beginning of the first interval, in nanoseconds since 1970.
    public var start: Int64 { self.first * Self.bucketNanoseconds }

    /// Returns the acceptances in the intervals that begin in a span of time, in nanoseconds since 1970.
    ///
    /// - Parameter provider: the provider; nil for all.
    public func accepted(_ provider: Provider? = nil, from: Int64, to: Int64 = .max) -> Int {
        let mask = Self.mask(provider)
        return self.buckets.indices.reduce(0) { sum, index in
            let begin = (self.first + Int64(index)) * Self.bucketNanoseconds
            return begin >= from && begin < to ? sum + Int((self.buckets[index].counts & mask).wrappedSum()) : sum
        }
    }

    // MARK: Counting

    @inline(__always)
    mutating func note(_ route: UInt8, at nanoseconds: Int64) {
        let number = nanoseconds / Self.bucketNanoseconds
        var index = Int(truncatingIfNeeded: number &- self.first)
        if index < 0 || index >= self.buckets.count { index = self.room(for: number) }
        // The addition uses the route's lane directly, without the detour through memory of a subscript.
        let lane = SIMD4<UInt32>(1, 2, 3, 4) .== SIMD4(repeating: UInt32(route))
        self.buckets[index].counts &+= SIMD4<UInt32>().replacing(with: 1, where: lane)
    }

    /// Makes room for an interval and returns its index. A clock that was set back counts into the first one.
    private mutating func room(for number: Int64) -> Int {
        if self.buckets.isEmpty || number - self.first >= 2 * Int64(Self.bucketsMax) {
            self.first = number
            self.buckets = []
        }
        guard number >= self.first else { return 0 }
        if number - self.first >= Int64(Self.bucketsMax) {
            let gone = min(self.buckets.count, Int(number - self.first) - Self.bucketsMax / 2)
            self.buckets.removeFirst(gone)
            self.first += Int64(gone)
            if self.buckets.isEmpty { self.first = number }
        }
        let index = Int(number - self.first)
        if index >= self.buckets.count {
            self.buckets.append(contentsOf: repeatElement(Bucket(), count: index + 1 - self.buckets.count))
        }
        return index
    }

    /// Adds the counts of another event loop.
    mutating func add(_ other: AcceptanceTimeline) {
        guard !other.buckets.isEmpty else { return }
        guard !self.buckets.isEmpty else {
            self = other
            return
        }
        let end = max(self.first + Int64(self.buckets.count), other.first + Int64(other.buckets.count))
        let first = max(min(self.first, other.first), end - Int64(Self.bucketsMax))
        var sum = [Bucket](repeating: Bucket(), count: Int(end - first))
        for part in [self, other] {
            for (index, bucket) in part.buckets.enumerated() {
                let place = Int(part.first - first) + index
                guard place >= 0 else { continue }
                sum[place].counts &+= bucket.counts
            }
        }
        self.first = first
        self.buckets = sum
    }
}
