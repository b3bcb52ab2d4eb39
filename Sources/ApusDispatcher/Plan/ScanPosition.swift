internal import ApusRedis

/// The position of a scan through the partitions of its routes, one route after the other. It is pure.
///
/// A partition whose Redis server does not answer is skipped, so that the others need not wait for it, and visited again after the last one.
/// The text is "scan:<route>:<partition>:<chunk>:<ordinal>", with ":<skipped>" when there are any: "7-9,12.3.40" stands for the partitions
/// 7 to 9, and for 12 from its chunk 3 and ordinal 40 on.
struct ScanPosition: Hashable, Sendable {
    /// A place in a partition.
    struct Place: Hashable, Sendable {
        /// The number of partitions before it in the scan, not the number of the partition.
        var partition: Int
        /// The chunk.
        var chunk = 0
        /// The ordinal in the chunk.
        var ordinal = 0

        /// True at the beginning of the partition.
        var isBeginning: Bool { self.chunk == 0 && self.ordinal == 0 }
    }

    /// The index of the route.
    private(set) var route = 0
    /// The place that no partition was visited from yet.
    private(set) var next = Place(partition: 0)
    /// The skipped places, all before ``next``, in the order of their partitions.
    private(set) var skipped: [Place] = []

    /// Creates the position at which a scan begins.
    init() {}

    /// Returns the next places to visit, in order: new ones, and after the last partition the skipped ones.
    ///
    /// - Parameter isSilent: tells of a partition that was skipped in this step, and is not asked again.
    func places(atMost count: Int, of partitions: Int, except isSilent: (Int) -> Bool) -> [Place] {
        guard self.next.partition >= partitions else {
            let end = min(self.next.partition + count, partitions)
            return [self.next] + (self.next.partition + 1..<end).map { Place(partition: $0) }
        }
        return Array(self.skipped.filter { !isSilent($0.partition) }.prefix(count))
    }

    /// True when nothing of the route is left.
    func isComplete(of partitions: Int) -> Bool { self.next.partition >= partitions && self.skipped.isEmpty }

    /// Notes that the scan of a partition goes on at that place.
    mutating func reach(_ place: Place) {
        if place.partition >= self.next.partition {
            self.next = place
        } else if let index = self.skipped.firstIndex(where: { $0.partition == place.partition }) {
            self.skipped[index] = place
        }
    }

    /// Notes that a partition has been visited.
    mutating func finish(_ partition: Int) {
        if partition >= self.next.partition {
            self.next = Place(partition: partition + 1)
        } else {
            self.skipped.removeAll { $0.partition == partition }
        }
    }

    /// Notes that the rest of a partition, from that place on, has to be visited later.
    mutating func skip(_ place: Place) {
        guard place.partition >= self.next.partition else { return self.reach(place) }
        self.skipped.append(place)
        self.next = Place(partition: place.partition + 1)
    }

    /// Goes to the beginning of the next route.
    mutating func beginNextRoute() {
        let route = self.route + 1
        self = ScanPosition()
        self.route = route
    }

    // MARK: Text

    /// Parses a position; nil if the text is not one.
    init?(text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let numbers = parts.dropFirst().prefix(4).compactMap { Self.number($0) }
        guard parts.first == "scan", numbers.count == 4, (5...6).contains(parts.count) else { return nil }
        self.route = numbers[0]
        self.next = Place(partition: numbers[1], chunk: numbers[2], ordinal: numbers[3])
        guard parts.count == 6 else { return }
        for run in parts[5].split(separator: ",", omittingEmptySubsequences: false) {
            guard let places = Self.places(run), let first = places.first, let last = places.last,
                first.partition > (self.skipped.last?.partition ?? -1), last.partition < self.next.partition
            else { return nil }
            self.skipped += places
        }
    }

    private static func number(_ text: Substring) -> Int? { Int(text).flatMap { $0 >= 0 ? $0 : nil } }

    private static func places(_ run: Substring) -> [Place]? {
        if run.contains(".") {
            let numbers = run.split(separator: ".", omittingEmptySubsequences: false).compactMap { Self.number($0) }
            guard numbers.count == 3 else { return nil }
            return [Place(partition: numbers[0], chunk: numbers[1], ordinal: numbers[2])]
        }
        let ends = run.split(separator: "-", omittingEmptySubsequences: false)
        guard let first = ends.first.flatMap(Self.number), let last = ends.last.flatMap(Self.number), ends.count <= 2,
            first <= last, last < Keyspace.sizeMax
        else { return nil }
        return (first...last).map { Place(partition: $0) }
    }

    /// The position as text.
    var text: String {
        let place = "scan:\(self.route):\(self.next.partition):\(self.next.chunk):\(self.next.ordinal)"
        guard !self.skipped.isEmpty else { return place }
        var runs: [(first: Place, last: Place)] = []
        for place in self.skipped {
            if let run = runs.last, run.last.partition + 1 == place.partition, run.last.isBeginning, place.isBeginning {
                runs[runs.count - 1].last = place
            } else {
                runs.append((place, place))
            }
        }
        let texts = runs.map { first, last in
            guard first.isBeginning else { return "\(first.partition).\(first.chunk).\(first.ordinal)" }
            return first == last ? "\(first.partition)" : "\(first.partition)-\(last.partition)"
        }
        return place + ":" + texts.joined(separator: ",")
    }
}
