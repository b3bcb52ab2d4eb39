public import ApusCore

/// How many requests each provider accepted in every ten milliseconds, the last half hour at least.
public struct AcceptanceTimeline: Hashable, Sendable {
    /// The acceptances of one interval.
    public struct Bucket: Hashable, Sendable {
        /// Apple's.
        public internal(set) var apns: UInt32 = 0
        /// Google's.
        public internal(set) var fcm: UInt32 = 0

        /// Those of a provider; nil: of both.
        public func count(_ provider: Provider?) -> Int {
            switch provider {
            case .apns: Int(self.apns)
            case .fcm: Int(self.fcm)
            case .webpush: 0
            case nil: Int(self.apns) + Int(self.fcm)
            }
        }
    }

    /// How long an interval is.
    public static let bucketNanoseconds: Int64 = 10_000_000
    /// Most intervals that are kept: an hour. Beyond, the older half is forgotten.
    public static let bucketsMax = 360_000

    /// The number of the first interval, counted from 1970.
    private var first: Int64 = 0
    /// The intervals, one after the other.
    public private(set) var buckets: [Bucket] = []

    init() {}

    /// When the first interval begins: nanoseconds since 1970.
    public var start: Int64 { self.first * Self.bucketNanoseconds }

    /// How many were accepted in the intervals that begin in a span of time, in nanoseconds since 1970.
    ///
    /// - Parameter provider: nil: both.
    public func accepted(_ provider: Provider? = nil, from: Int64, to: Int64 = .max) -> Int {
        self.buckets.indices.reduce(0) { sum, index in
            let begin = (self.first + Int64(index)) * Self.bucketNanoseconds
            return begin >= from && begin < to ? sum + self.buckets[index].count(provider) : sum
        }
    }

    // MARK: Counting

    @inline(__always)
    mutating func note(_ route: UInt8, at nanoseconds: Int64) {
        let number = nanoseconds / Self.bucketNanoseconds
        var index = Int(truncatingIfNeeded: number &- self.first)
        if index < 0 || index >= self.buckets.count { index = self.room(for: number) }
        if route == FaultRoute.apns.rawValue {
            self.buckets[index].apns &+= 1
        } else {
            self.buckets[index].fcm &+= 1
        }
    }

    /// The place of an interval that there was no room for yet. A clock that was set back counts into the first one.
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

    /// Adds what another event loop counted.
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
                sum[place].apns &+= bucket.apns
                sum[place].fcm &+= bucket.fcm
            }
        }
        self.first = first
        self.buckets = sum
    }
}
