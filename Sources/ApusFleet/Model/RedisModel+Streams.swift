extension RedisModel {
    static let streamCommands: [ModelCommand] = [
        ModelCommand("XADD", .atLeast(5), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.add(arguments)
        },
        ModelCommand("XLEN", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.stream(arguments[1])?.entries.count ?? 0)
        },
        ModelCommand("XRANGE", .atLeast(4)) { model, arguments throws(CommandFault) in
            try model.range(arguments, from: arguments[2], to: arguments[3], isReversed: false)
        },
        ModelCommand("XREVRANGE", .atLeast(4)) { model, arguments throws(CommandFault) in
            try model.range(arguments, from: arguments[3], to: arguments[2], isReversed: true)
        },
        ModelCommand("XDEL", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            guard try model.stream(arguments[1]) != nil else { return .integer(0) }
            var ids: [EntryID] = []
            for argument in arguments[2...] { ids.append(try EntryID.parse(argument, missing: 0)) }
            return try model.changeExisting(arguments[1], ModelStream.self, empty: ModelStream()) { stream in
                var count = 0
                for id in ids where stream.delete(id) { count += 1 }
                return .count(count)
            } ?? .integer(0)
        },
        ModelCommand("XTRIM", .atLeast(4), .write) { model, arguments throws(CommandFault) in
            var rest = arguments[2...]
            guard let trim = try StreamTrim(&rest), rest.isEmpty else { throw .syntax }
            return try model.changeExisting(arguments[1], ModelStream.self, empty: ModelStream()) { stream in
                .count(trim.apply(to: &stream))
            } ?? .integer(0)
        },
        ModelCommand("XREAD", .atLeast(4), .noScript) { model, arguments throws(CommandFault) in
            try model.perform(StreamRead(arguments, hasGroup: false).resolved(model)) ?? .nullArray
        },
        ModelCommand("XREADGROUP", .atLeast(7), [.write, .noScript]) { model, arguments throws(CommandFault) in
            try model.perform(StreamRead(arguments, hasGroup: true).resolved(model)) ?? .nullArray
        },
    ]

    func stream(_ key: Bytes) throws(CommandFault) -> ModelStream? { try self.read(key, ModelStream.self) }

    private func add(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        var rest = arguments[2...]
        var createsStream = true
        if let first = rest.first, upper(first) == "NOMKSTREAM" {
            createsStream = false
            rest.removeFirst()
        }
        let trim = try StreamTrim(&rest)
        if let first = rest.first, upper(first) == "NOMKSTREAM" {
            createsStream = false
            rest.removeFirst()
        }
        guard let idArgument = rest.popFirst() else { throw RedisModel.arity("xadd") }
        let wanted = try Self.wantedID(idArgument)
        guard !rest.isEmpty, rest.count.isMultiple(of: 2) else { throw RedisModel.arity("xadd") }
        if case .exact(.zero) = wanted { throw CommandFault("ERR The ID specified in XADD must be greater than 0-0") }
        if !createsStream, try self.stream(arguments[1]) == nil { return .null }
        let now = UInt64(self.nowMilliseconds)
        return try self.change(arguments[1], missing: ModelStream()) { stream throws(CommandFault) in
            let tooSmall = CommandFault(
                "ERR The ID specified in XADD is equal or smaller than the target stream top item"
            )
            let id: EntryID
            switch wanted {
            case .exact(let given): id = given
            case .next:
                let later = EntryID(milliseconds: now, sequence: 0)
                guard let next = later > stream.lastID ? later : stream.lastID.next else { throw tooSmall }
                id = next
            case .nextIn(let milliseconds):
                let last = stream.lastID
                if milliseconds == last.milliseconds, last.sequence < .max {
                    id = EntryID(milliseconds: milliseconds, sequence: last.sequence + 1)
                } else {
                    id = EntryID(milliseconds: milliseconds, sequence: 0)
                }
            }
            guard id > stream.lastID else { throw tooSmall }
            stream.append(id, Array(rest))
            _ = trim?.apply(to: &stream)
            return id.reply
        }
    }

    private enum WantedID {
        case exact(EntryID)
        case next
        case nextIn(UInt64)
    }

    private static func wantedID(_ bytes: Bytes) throws(CommandFault) -> WantedID {
        if bytes == [0x2a] { return .next }
        if bytes.suffix(2) == [0x2d, 0x2a] {
            return .nextIn(try EntryID.parse(Bytes(bytes.dropLast(2)), missing: 0).milliseconds)
        }
        return .exact(try EntryID.parse(bytes, missing: 0))
    }

    private func range(
        _ arguments: [Bytes],
        from: Bytes,
        to: Bytes,
        isReversed: Bool,
    ) throws(CommandFault) -> ModelReply {
        let (start, end) = (try Self.start(from), try Self.end(to))
        var count = Int64(-1)
        if arguments.count > 4 {
            guard arguments.count == 6, upper(arguments[4]) == "COUNT" else { throw .syntax }
            count = max(0, try integer(arguments[5]))
        }
        guard let stream = try self.stream(arguments[1]) else { return .array([]) }
        if count == 0 { return .nullArray }
        let found = stream.entries(from: start, to: end)
        let limit = count < 0 ? Int.max : Int(clamping: count)
        return .array((isReversed ? Array(found.reversed().prefix(limit)) : Array(found.prefix(limit))).map(\.reply))
    }

    /// Parses the begin of a range: an id, `-`, `+`, or an id behind `(`.
    static func start(_ bytes: Bytes) throws(CommandFault) -> EntryID {
        guard bytes.first == 0x28 else { return try Self.bound(bytes, missing: 0) }
        guard let next = try EntryID.parse(Bytes(bytes.dropFirst()), missing: 0).next else {
            throw CommandFault("ERR invalid start ID for the interval")
        }
        return next
    }

    /// Parses the end of a range.
    static func end(_ bytes: Bytes) throws(CommandFault) -> EntryID {
        guard bytes.first == 0x28 else { return try Self.bound(bytes, missing: .max) }
        guard let previous = try EntryID.parse(Bytes(bytes.dropFirst()), missing: .max).previous else {
            throw CommandFault("ERR invalid end ID for the interval")
        }
        return previous
    }

    private static func bound(_ bytes: Bytes, missing: UInt64) throws(CommandFault) -> EntryID {
        switch bytes {
        case [0x2d]: .zero
        case [0x2b]: .last
        default: try EntryID.parse(bytes, missing: missing)
        }
    }

    /// Reads entries, of a group or not; returns nil when there are none.
    func perform(_ read: StreamRead) throws(CommandFault) -> ModelReply? {
        if let group = read.group {
            // Every group must be there before anything is read.
            for stream in read.streams { try self.check(group, of: stream.key) }
        }
        var replies: [ModelReply] = []
        for (key, after) in read.streams {
            let entries =
                if let group = read.group {
                    try self.readGroup(key, after: after, group, count: read.count)
                } else { try self.readAfter(key, after, count: read.count) }
            if let entries { replies.append(.array([.bulk(key), .array(entries)])) }
        }
        return replies.isEmpty ? nil : .array(replies)
    }

    /// Throws unless the group is there.
    fileprivate func check(_ group: StreamRead.Group, of key: Bytes) throws(CommandFault) {
        if try self.stream(key)?.groups.index(forKey: group.name) != nil { return }
        let (key, name) = (String(decoding: key, as: UTF8.self), String(decoding: group.name, as: UTF8.self))
        throw CommandFault(
            "NOGROUP No such key '\(key)' or consumer group '\(name)' in XREADGROUP with GROUP option"
        )
    }

    private func readAfter(_ key: Bytes, _ after: StreamRead.Position, count: Int) throws(CommandFault) -> [ModelReply]?
    {
        guard case .after(let id) = after, let stream = try self.stream(key), let next = id.next else { return nil }
        let found = stream.entries(from: next, to: .last).prefix(count)
        return found.isEmpty ? nil : found.map(\.reply)
    }

    private func readGroup(
        _ key: Bytes,
        after: StreamRead.Position,
        _ reader: StreamRead.Group,
        count: Int,
    ) throws(CommandFault) -> [ModelReply]? {
        let now = self.nowMilliseconds
        return try self.change(key, missing: ModelStream()) { stream -> [ModelReply]? in
            guard let place = stream.groups.index(forKey: reader.name) else { return nil }
            var group = stream.groups.values[place]
            // The group has one owner while it changes, so that its lists are not copied.
            stream.groups.values[place] = ModelStream.Group(lastDelivered: .zero)
            defer { stream.groups.values[place] = group }
            guard case .after(let id) = after else {
                guard let next = group.lastDelivered.next else { return nil }
                let found = stream.entries(from: next, to: .last).prefix(count)
                guard let last = found.last else { return nil }
                // Only a read that finds something makes the consumer, or shows that it lives.
                group.consumers[reader.consumer] = now
                group.lastDelivered = last.id
                if !reader.acknowledgesNothing {
                    for entry in found {
                        group.deliver(
                            ModelStream.Pending(
                                id: entry.id,
                                consumer: reader.consumer,
                                deliveredAt: now,
                                deliveries: 1
                            )
                        )
                    }
                }
                return found.map(\.reply)
            }
            group.consumers[reader.consumer] = now
            // Entries that were delivered to this consumer before are delivered again.
            let places = group.pending.indices.filter {
                group.pending[$0].consumer == reader.consumer && group.pending[$0].id > id
            }
            return places.prefix(count).map { place in
                guard let entry = stream.index(of: group.pending[place].id) else {
                    return .array([group.pending[place].id.reply, .nullArray])
                }
                group.pending[place].deliveredAt = now
                group.pending[place].deliveries += 1
                return stream.entries[entry].reply
            }
        }
    }
}

/// A read of streams: `XREAD` or `XREADGROUP`.
struct StreamRead {
    struct Group {
        var name: Bytes
        var consumer: Bytes
        /// True with `NOACK`: what is delivered does not become pending.
        var acknowledgesNothing = false
    }

    enum Position {
        /// The entries that no consumer of the group has read: `>`.
        case new
        /// The entries after that id; of a group, those that are pending with the consumer.
        case after(EntryID)
        /// An id that was not looked at yet.
        case given(Bytes)
    }

    var group: Group?
    var streams: [(key: Bytes, after: Position)] = []
    var count = Int.max
    /// For how many ms the read waits; nil does not wait, 0 waits for ever.
    var blocksFor: Int64?

    init(_ arguments: [Bytes], hasGroup: Bool) throws(CommandFault) {
        var rest = arguments[1...]
        while let option = rest.popFirst() {
            switch upper(option) {
            case "COUNT":
                guard let value = rest.popFirst() else { throw .syntax }
                let count = try integer(value)
                self.count = count <= 0 ? Int.max : Int(clamping: count)
            case "BLOCK":
                guard let value = rest.popFirst() else { throw .syntax }
                let time = try integer(value, CommandFault("ERR timeout is not an integer or out of range"))
                guard time >= 0 else { throw CommandFault("ERR timeout is negative") }
                self.blocksFor = time
            case "GROUP" where hasGroup:
                guard let name = rest.popFirst(), let consumer = rest.popFirst() else { throw .syntax }
                self.group = Group(name: name, consumer: consumer)
            case "NOACK" where hasGroup: self.group?.acknowledgesNothing = true
            case "STREAMS":
                try self.parse(Array(rest), command: hasGroup ? "xreadgroup" : "xread")
                rest = []
            default: throw .syntax
            }
        }
        guard !self.streams.isEmpty else { throw .syntax }
        if hasGroup, self.group == nil { throw CommandFault("ERR Missing GROUP option for XREADGROUP") }
    }

    private mutating func parse(_ arguments: [Bytes], command: String) throws(CommandFault) {
        guard !arguments.isEmpty, arguments.count.isMultiple(of: 2) else {
            throw CommandFault(
                "ERR Unbalanced '\(command)' list of streams: for each stream key an ID or '$' must be specified."
            )
        }
        let half = arguments.count / 2
        for (key, id) in zip(arguments[..<half], arguments[half...]) {
            self.streams.append((key, .given(id)))
        }
    }

    /// Returns the read with its ids parsed, and with the last ids of the streams in the place of `$`.
    func resolved(_ model: RedisModel) throws(CommandFault) -> StreamRead {
        var read = self
        for (index, stream) in self.streams.enumerated() {
            guard case .given(let id) = stream.after else { continue }
            let last = try model.stream(stream.key)?.lastID ?? .zero
            if let group = self.group { try model.check(group, of: stream.key) }
            read.streams[index].after =
                switch id {
                case [0x3e] where self.group != nil: .new
                case [0x24] where self.group == nil: .after(last)
                default: .after(try EntryID.parse(id, missing: 0))
                }
        }
        return read
    }
}

/// A limit that a stream is trimmed to: its length or the smallest id.
struct StreamTrim {
    private enum Strategy {
        case length(Int)
        case smallestID(EntryID)
    }

    /// The maximum of entries that a call trims when it need not be exact, with one entry a node.
    private static let approximateMax = 100

    private let strategy: Strategy
    private var entriesMax = Int.max

    /// Parses `MAXLEN` or `MINID` with what belongs to it; nil when neither stands there.
    init?(_ rest: inout ArraySlice<Bytes>) throws(CommandFault) {
        guard let first = rest.first, ["MAXLEN", "MINID"].contains(upper(first)), rest.count > 1 else { return nil }
        rest.removeFirst()
        var isApproximate = false
        if let sign = rest.first, sign == [0x7e] || sign == [0x3d] {
            isApproximate = sign == [0x7e]
            rest.removeFirst()
        }
        guard let threshold = rest.popFirst() else { throw .syntax }
        if upper(first) == "MAXLEN" {
            let length = try integer(threshold)
            guard length >= 0 else { throw CommandFault("ERR The MAXLEN argument must be >= 0.") }
            self.strategy = .length(Int(length))
        } else {
            self.strategy = .smallestID(try EntryID.parse(threshold, missing: 0))
        }
        if isApproximate { self.entriesMax = Self.approximateMax }
        if let option = rest.first, upper(option) == "LIMIT", rest.count > 1 {
            guard isApproximate else {
                throw CommandFault("ERR syntax error, LIMIT cannot be used without the special ~ option")
            }
            rest.removeFirst()
            let limit = try integer(rest.removeFirst())
            guard limit >= 0 else { throw CommandFault("ERR The LIMIT argument must be >= 0.") }
            self.entriesMax = limit == 0 ? Int.max : Int(limit)
        }
    }

    /// Trims a stream; returns how many entries are gone.
    func apply(to stream: inout ModelStream) -> Int {
        let excess =
            switch self.strategy {
            case .length(let length): max(0, stream.entries.count - length)
            case .smallestID(let id): firstIndex(of: stream.entries) { $0.id >= id }
            }
        let count = min(excess, self.entriesMax)
        stream.entries.removeFirst(count)
        return count
    }
}
