/// Limits how many warnings and errors one place of the code may log per second, and counts those withheld, so that a
/// provider outage fills neither the disk nor the bill of a log collector. Pure.
package struct LogRepeats: Sendable {
    /// A place in the code that logs.
    package struct Place: Hashable, Sendable {
        /// The source file.
        package var file: String
        /// The line in it.
        package var line: UInt

        /// Creates a place.
        package init(file: String, line: UInt) {
            self.file = file
            self.line = line
        }
    }

    /// The maximum number of lines that one place may write within ``spanNanoseconds``: enough for every app and route
    /// of a small installation.
    package static let linesMax = 10
    /// The nanoseconds after which a place may write as many lines again.
    package static let spanNanoseconds: Int64 = 1_000_000_000
    /// The maximum number of places that are tracked; beyond it all counts begin anew.
    package static let placesMax = 512

    private struct Count {
        var since: Int64
        var written = 0
        var withheld = 0
    }

    private var counts: [Place: Count] = [:]

    /// Creates a limiter without any counts.
    package init() {}

    /// The number of places that are tracked.
    package var placesCount: Int { self.counts.count }

    /// Counts a line of a place.
    ///
    /// - Parameter now: the time in nanoseconds; a clock that is set back begins a new span.
    /// - Returns: the number of this place's lines that were withheld since the last written one; nil when this line is withheld too.
    package mutating func admit(_ place: Place, at now: Int64) -> Int? {
        var count = self.counts[place] ?? Count(since: now)
        if now < count.since || now - count.since >= Self.spanNanoseconds {
            count.since = now
            count.written = 0
        }
        if self.counts.count >= Self.placesMax, self.counts[place] == nil { self.counts.removeAll() }
        guard count.written < Self.linesMax else {
            count.withheld += 1
            self.counts[place] = count
            return nil
        }
        let withheld = count.withheld
        count.written += 1
        count.withheld = 0
        self.counts[place] = count
        return withheld
    }
}
