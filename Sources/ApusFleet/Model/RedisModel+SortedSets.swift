internal import CLua

extension RedisModel {
    static let sortedSetCommands: [ModelCommand] = [
        ModelCommand("ZADD", .atLeast(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.addToSortedSet(arguments)
        },
        ModelCommand("ZREM", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            try model.changeExisting(arguments[1], SortedSet.self, empty: SortedSet()) { set in
                var count = 0
                for member in arguments[2...] where set.remove(member) { count += 1 }
                return .count(count)
            } ?? .integer(0)
        },
        ModelCommand("ZCARD", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.read(arguments[1], SortedSet.self)?.count ?? 0)
        },
        ModelCommand("ZSCORE", .exactly(3)) { model, arguments throws(CommandFault) in
            try model.read(arguments[1], SortedSet.self)?.score(of: arguments[2]).map { .score($0) } ?? .null
        },
        ModelCommand("ZCOUNT", .exactly(4)) { model, arguments throws(CommandFault) in
            let range = try ScoreRange(arguments[2], arguments[3])
            return .count(try model.read(arguments[1], SortedSet.self).map { range.indices(in: $0).count } ?? 0)
        },
        ModelCommand("ZRANGE", .atLeast(4)) { model, arguments throws(CommandFault) in
            let (first, last) = (try integer(arguments[2]), try integer(arguments[3]))
            let withScores = arguments.count == 5 && upper(arguments[4]) == "WITHSCORES"
            // The model knows ranges of ranks alone.
            guard arguments.count == 4 || withScores else { throw .syntax }
            let elements = try model.read(arguments[1], SortedSet.self)?.elements ?? []
            return .elements(elements[indexRange(first, last, count: elements.count)], withScores: withScores)
        },
        ModelCommand("ZRANGEBYSCORE", .atLeast(4)) { model, arguments throws(CommandFault) in
            try model.rangeByScore(arguments, isReversed: false)
        },
        ModelCommand("ZREVRANGEBYSCORE", .atLeast(4)) { model, arguments throws(CommandFault) in
            try model.rangeByScore(arguments, isReversed: true)
        },
        ModelCommand("ZREMRANGEBYSCORE", .exactly(4), .write) { model, arguments throws(CommandFault) in
            let range = try ScoreRange(arguments[2], arguments[3])
            return try model.removeFromSortedSet(arguments[1]) { range.indices(in: $0) }
        },
        ModelCommand("ZREMRANGEBYRANK", .exactly(4), .write) { model, arguments throws(CommandFault) in
            let (first, last) = (try integer(arguments[2]), try integer(arguments[3]))
            return try model.removeFromSortedSet(arguments[1]) { indexRange(first, last, count: $0.count) }
        },
        ModelCommand("ZPOPMIN", .atLeast(2), .write) { model, arguments throws(CommandFault) in
            guard arguments.count <= 3 else { throw .syntax }
            let fault = CommandFault("ERR value is out of range, must be positive")
            let count = arguments.count == 3 ? try integer(arguments[2], fault) : 1
            guard count >= 0 else { throw fault }
            return try model.changeExisting(arguments[1], SortedSet.self, empty: SortedSet()) { set in
                let taken = set.elements.prefix(Int(clamping: count))
                set.remove(at: 0..<taken.count)
                return .elements(taken, withScores: true)
            } ?? .array([])
        },
        ModelCommand("ZSCAN", .atLeast(3)) { model, arguments throws(CommandFault) in
            let options = try ScanOptions(arguments, cursorAt: 2)
            let elements = try model.read(arguments[1], SortedSet.self)?.elements ?? []
            let found = elements.filter { options.allows($0.member) }
            return ScanOptions.reply(found.flatMap { [.bulk($0.member), .score($0.score)] })
        },
    ]

    private func removeFromSortedSet(
        _ key: Bytes,
        _ range: (SortedSet) -> Range<Int>,
    ) throws(CommandFault) -> ModelReply {
        try self.changeExisting(key, SortedSet.self, empty: SortedSet()) { set in
            let removed = range(set)
            set.remove(at: removed)
            return .count(removed.count)
        } ?? .integer(0)
    }

    private func addToSortedSet(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        var options: Set<String> = []
        var place = 2
        while place < arguments.count, ["NX", "XX", "GT", "LT", "CH", "INCR"].contains(upper(arguments[place])) {
            options.insert(upper(arguments[place]))
            place += 1
        }
        let rest = arguments[place...]
        guard !rest.isEmpty, rest.count.isMultiple(of: 2) else { throw .syntax }
        if options.isSuperset(of: ["NX", "XX"]) {
            throw CommandFault("ERR XX and NX options at the same time are not compatible")
        }
        if options.intersection(["GT", "LT", "NX"]).count > 1 {
            throw CommandFault("ERR GT, LT, and/or NX options at the same time are not compatible")
        }
        let increments = options.contains("INCR")
        if increments, rest.count > 2 {
            throw CommandFault("ERR INCR option supports a single increment-element pair")
        }
        var scores: [Double] = []
        for index in stride(from: place, to: arguments.count, by: 2) {
            guard let score = parseDouble(arguments[index]) else { throw .notFloat }
            scores.append(score)
        }
        return try self.change(arguments[1], missing: SortedSet()) { set throws(CommandFault) in
            var (added, changed) = (0, 0)
            for (offset, score) in scores.enumerated() {
                let member = arguments[place + offset * 2 + 1]
                let former = set.score(of: member)
                var score = score
                if increments { score += former ?? 0 }
                if score.isNaN { throw CommandFault("ERR resulting score is not a number (NaN)") }
                let isRefused =
                    if let former {
                        options.contains("NX") || (options.contains("GT") && score <= former)
                            || (options.contains("LT") && score >= former)
                    } else { options.contains("XX") }
                if isRefused {
                    if increments { return .null }
                    continue
                }
                if former == nil { added += 1 } else if former != score { changed += 1 }
                if former != score { set.set(member, score) }
                if increments { return .score(score) }
            }
            return .count(options.contains("CH") ? added + changed : added)
        }
    }

    private func rangeByScore(_ arguments: [Bytes], isReversed: Bool) throws(CommandFault) -> ModelReply {
        let range =
            isReversed
            ? try ScoreRange(arguments[3], arguments[2]) : try ScoreRange(arguments[2], arguments[3])
        var (withScores, offset, limit) = (false, Int64(0), Int64(-1))
        var rest = arguments[4...]
        while let option = rest.popFirst() {
            switch upper(option) {
            case "WITHSCORES": withScores = true
            case "LIMIT":
                guard let first = rest.popFirst(), let second = rest.popFirst() else { throw .syntax }
                (offset, limit) = (try integer(first), try integer(second))
            default: throw .syntax
            }
        }
        guard let set = try self.read(arguments[1], SortedSet.self), offset >= 0 else { return .array([]) }
        var found = Array(set.elements[range.indices(in: set)])
        if isReversed { found.reverse() }
        let page = found.dropFirst(Int(clamping: offset)).prefix(limit < 0 ? Int.max : Int(clamping: limit))
        return .elements(page, withScores: withScores)
    }
}

/// A range of scores, as `ZRANGEBYSCORE` takes it: `5`, `(5`, `-inf`.
struct ScoreRange {
    private let lower: (score: Double, isExcluded: Bool)
    private let upper: (score: Double, isExcluded: Bool)

    init(_ lower: Bytes, _ upper: Bytes) throws(CommandFault) {
        self.lower = try Self.bound(lower)
        self.upper = try Self.bound(upper)
    }

    private static func bound(_ bytes: Bytes) throws(CommandFault) -> (Double, Bool) {
        let isExcluded = bytes.first == 0x28
        guard let score = parseDouble(isExcluded ? Bytes(bytes.dropFirst()) : bytes) else {
            throw CommandFault("ERR min or max is not a float")
        }
        return (score, isExcluded)
    }

    func indices(in set: SortedSet) -> Range<Int> {
        let first = firstIndex(of: set.elements) {
            self.lower.isExcluded ? $0.score > self.lower.score : $0.score >= self.lower.score
        }
        let end = firstIndex(of: set.elements) {
            self.upper.isExcluded ? $0.score >= self.upper.score : $0.score > self.upper.score
        }
        return first..<max(first, end)
    }
}

extension ModelReply {
    /// Returns a score as text.
    static func score(_ score: Double) -> ModelReply { .bulk(formatNumber(score)) }

    static func elements(_ elements: some Sequence<SortedSet.Element>, withScores: Bool) -> ModelReply {
        .array(elements.flatMap { withScores ? [.bulk($0.member), .score($0.score)] : [.bulk($0.member)] })
    }
}

/// Returns a number with 17 significant digits at most, as Redis writes scores and the numbers of scripts.
func formatNumber(_ number: Double) -> Bytes {
    // Zero has two forms, one with a sign.
    if number != 0, abs(number) < 1e15, let integer = Int64(exactly: number) { return Bytes(digitsOf: integer) }
    return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
        let count = unsafe clua_format_number(number, buffer.baseAddress, buffer.count)
        return unsafe buffer.prefix(Int(count)).map { UInt8(bitPattern: $0) }
    }
}
