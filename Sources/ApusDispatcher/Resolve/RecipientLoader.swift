internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusStore

/// Loads the recipients of a unit into a table: reads their current records and checks which still match.
///
/// Token, owner, membership and suspicion are read here, just before sending, not when the send was planned.
struct RecipientLoader: Sendable {
    let store: DeviceStore

    /// Counts the send in the badge of every row that is to be sent to, if the message increments badges.
    ///
    /// - Parameters:
    ///   - storedRoute: the route under which the store has the devices; nil for this one.
    ///   - journal: the journal of an earlier owner, with the rows that are done.
    ///   - triesElsewhere: true if devices of the wrong environment are sent to in the other one. They are counted here, because the unit
    ///     that does so is a repetition.
    ///   - isRepeated: true if all of them were counted for this send before.
    func countBadges(
        in table: inout RecipientTable,
        of send: SendContext,
        _ context: RouteContext,
        storedRoute: RouteContext?,
        journal: [UInt8],
        triesElsewhere: Bool,
        isRepeated: Bool,
    ) async throws {
        let rows = table.rows
        let stored = (storedRoute ?? context).route
        guard context.needsBadges, case .increment(let increment) = send.command.notification.badge else { return }
        let done = DoneBitmap(count: rows.count, journal: journal)
        let open = rows.indices.filter { index in
            let goesElsewhere =
                triesElsewhere && rows[index].verdict == .skipped && rows[index].verdictReason == .wrongEnvironment
            return (rows[index].verdict == .open || goesElsewhere) && !done[index]
        }
        // A unit never has more recipients than one call can count.
        let parts = Dictionary(grouping: open) { rows[$0].partition }.map { (partition: $0.key, indices: $0.value) }
        let store = self.store
        let counted = try await withThrowingTaskGroup(of: ([Int], [UInt32?]).self) { group in
            for part in parts {
                let devices = part.indices.map { index in
                    DeviceStore.CountedDevice(ordinal: rows[index].ordinal, generation: rows[index].generation)
                }
                group.addTask {
                    let counts = try await store.countBadges(
                        stored,
                        Int(part.partition),
                        devices,
                        send: send.badgeDigest,
                        increment: increment,
                        isRepeated: isRepeated,
                    )
                    return (part.indices, counts)
                }
            }
            var counted: [([Int], [UInt32?])] = []
            for try await part in group { counted.append(part) }
            return counted
        }
        for (indices, counts) in counted { table.setBadges(counts, of: indices) }
    }

    /// Returns the table of a unit. Its rows are in the order of the journal's bits.
    ///
    /// - Parameter storedRoute: the route under which the store has the devices; nil for this one.
    func table(
        _ unit: WorkUnit,
        _ send: SendContext,
        _ context: RouteContext,
        storedRoute: RouteContext? = nil,
    ) async throws -> RecipientTable {
        switch unit.recipients {
        case .addresses(let indices): return Self.table(addresses: indices, send, context)
        case .segments(let segments):
            return try await self.table(
                segments.map { segment in
                    let base = segment.chunk * UInt32(ChunkSet.capacity)
                    return Places(partition: segment.partition, ordinals: segment.ordinals.map { base + UInt32($0) })
                },
                generations: nil,
                send,
                context,
                storedRoute,
            )
        case .references(let references):
            return try await self.table(references, send, context, storedRoute: storedRoute)
        }
    }

    /// Returns the table of devices, one row for each, in their order.
    func table(
        _ references: [DeviceReference],
        _ send: SendContext,
        _ context: RouteContext,
        storedRoute: RouteContext?,
    ) async throws -> RecipientTable {
        try await self.table(
            Self.runs(of: references),
            generations: references.map(\.generation),
            send,
            context,
            storedRoute,
        )
    }

    private struct Places {
        var partition: UInt32
        /// The ordinals, in ascending order.
        var ordinals: [UInt32]
    }

    /// Splits references where the partition changes or the ordinals stop ascending. Each run needs one read, and the
    /// order is kept.
    private static func runs(of references: [DeviceReference]) -> [Places] {
        var runs: [Places] = []
        for reference in references {
            if let last = runs.last, last.partition == reference.partition, let ordinal = last.ordinals.last,
                ordinal < reference.ordinal
            {
                runs[runs.count - 1].ordinals.append(reference.ordinal)
            } else {
                runs.append(Places(partition: reference.partition, ordinals: [reference.ordinal]))
            }
        }
        return runs
    }

    private func table(
        _ places: [Places],
        generations: [UInt32]?,
        _ send: SendContext,
        _ context: RouteContext,
        _ storedRoute: RouteContext?,
    ) async throws -> RecipientTable {
        let (store, route) = (self.store, (storedRoute ?? context).route)
        let predicate = try await self.predicate(of: send)
        let replies = try await withThrowingTaskGroup(of: (Int, [(read: RecordRead, reply: RESPReply)]).self) { group in
            for (index, place) in places.enumerated() {
                group.addTask {
                    (index, try await store.readRecords(route, Int(place.partition), ordinals: place.ordinals))
                }
            }
            var replies: [[(read: RecordRead, reply: RESPReply)]] = Array(repeating: [], count: places.count)
            for try await (index, reply) in group { replies[index] = reply }
            return replies
        }
        let now = store.now
        let count = places.reduce(0) { $0 + $1.ordinals.count }
        var table = RecipientTable(of: context)
        table.rows.reserveCapacity(count)
        table.tokens.reserveCapacity(count * (40 + table.keyBytes))
        for (place, reads) in zip(places, replies) {
            // Ordinals ascend within a place, and so do its rows, so that an ordinal's row is found by binary search.
            let first = table.rows.count
            for ordinal in place.ordinals {
                table.rows.append(RecipientTable.Row(partition: place.partition, ordinal: ordinal))
            }
            for (read, reply) in reads {
                read.forEachRecord(in: reply) { ordinal, value in
                    guard let row = table.row(of: ordinal, from: first) else { return }
                    let generation = generations?[row]
                    table.fill(
                        row,
                        value,
                        generation: generation,
                        send,
                        predicate,
                        context,
                        storedRoute: storedRoute,
                        now: now
                    )
                }
            }
        }
        return table
    }

    /// Returns the send's predicate, resolved again if it named a topic without members.
    private func predicate(of send: SendContext) async throws -> SendContext.Predicate {
        guard send.namesUnknownTopic else { return send.predicate }
        return try await SendContext.Predicate.resolve(
            send.command.target,
            app: try AppID(send.command.app),
            now: send.command.resolvedAt(now: self.store.now),
            in: self.store,
        ).predicate
    }

    /// The table of an audience that a provider holds: one recipient without a token.
    static var heldAudience: RecipientTable {
        var table = RecipientTable()
        table.append(RecipientTable.Row(partition: RecipientTable.addressPartition, ordinal: 0), token: [])
        return table
    }

    /// Returns the table of addresses in the command, or of the audience that it names.
    static func table(
        addresses indices: [UInt32],
        _ send: SendContext,
        _ context: RouteContext,
    ) -> RecipientTable {
        guard send.command.target.holder == nil else { return Self.heldAudience }
        guard case .addresses(let addresses) = send.command.target else {
            preconditionFailure("a unit of addresses without any")
        }
        var table = RecipientTable(of: context)
        for index in indices {
            let row = RecipientTable.Row(partition: RecipientTable.addressPartition, ordinal: index)
            guard Int(index) < addresses.count else {
                table.append(row, outcome: .rejected, reason: .malformed)
                continue
            }
            let address = addresses[Int(index)]
            guard let token = try? DeviceToken.stored(address.token, of: address.provider) else {
                table.append(row, outcome: .rejected, reason: .badToken)
                continue
            }
            guard context.tokenKinds.contains(address.kind) else {
                table.append(row, outcome: .skipped, reason: .notMatching)
                continue
            }
            var variant = row
            variant.variant = UInt16(context.messages.variantIndex(forLocale: Array(address.locale.utf8).span))
            variant.isInstallation = address.kind == .installation
            guard context.needsKeys else {
                table.append(variant, token: token)
                continue
            }
            guard let recipientKeys = address.recipientKeys else {
                table.append(row, outcome: .rejected, reason: .malformed)
                continue
            }
            var keys: [UInt8] = []
            recipientKeys.append(to: &keys)
            table.append(variant, token: token, keys: keys)
        }
        return table
    }
}

extension RecipientTable {
    /// Creates an empty table of a route's recipients.
    init(of context: RouteContext) {
        self.init()
        if context.needsKeys { self.keyBytes = RecipientKeys.byteCount }
    }

    /// Adds a device as the store has it: to be sent to, or with the reason why it is skipped.
    ///
    /// - Parameters:
    ///   - activity: the Live Activity whose token the notification goes to; nil for the device's own token.
    ///   - tokenKinds: the kinds of own tokens that the notification may go to.
    mutating func append(
        _ row: Row,
        _ record: DeviceRecord,
        activity: ActivityAddress? = nil,
        tokenKinds: TokenKinds = .all,
        now: UnixMilliseconds,
    ) {
        let address = activity.flatMap { $0.address(of: record, now: now) }
        let recipientKeys = self.keyBytes > 0 ? record.recipientKeys : nil
        let decision = RecipientEligibility.decide(
            suspicion: record.suspicion?.reason,
            isStoredElsewhere: false,
            // It was found by what the audience says.
            isInAudience: true,
            token: activity == nil ? .own(isOfRoute: tokenKinds.contains(record.tokenKind)) : .init(address),
            subscription: self.keyBytes > 0
                ? .init(hasKeys: recipientKeys != nil, expiresAtSeconds: record.expiresAtSeconds) : nil,
            now: now,
        )
        var row = row
        switch decision {
        case .skip(let reason): return self.append(row, outcome: .skipped, reason: reason)
        case .send(let wasRefused, let isEnvironmentKnown):
            row.wasRefused = wasRefused
            row.isEnvironmentKnown = isEnvironmentKnown
        }
        row.isInstallation = record.tokenKind == .installation
        var keys: [UInt8] = []
        recipientKeys?.append(to: &keys)
        self.append(row, token: address?.token ?? record.token, keys: keys)
    }

    /// Returns the row of an ordinal among the rows from `first` on, which ascend.
    fileprivate func row(of ordinal: UInt32, from first: Int) -> Int? {
        var (low, high) = (first, self.rows.count)
        while low < high {
            let middle = (low + high) / 2
            if self.rows[middle].ordinal < ordinal { low = middle + 1 } else { high = middle }
        }
        guard low < self.rows.count, self.rows[low].ordinal == ordinal else { return nil }
        return low
    }

    /// Checks a record, and copies its token or sets the reason why it is skipped. Allocates only room for the tokens,
    /// and for the ids of a send that lists its recipients.
    ///
    /// - Parameter storedRoute: the route under which the record is stored, when it is sent to on another.
    fileprivate mutating func fill(
        _ row: Int,
        _ value: Span<UInt8>,
        generation: UInt32?,
        _ send: SendContext,
        _ predicate: SendContext.Predicate,
        _ context: RouteContext,
        storedRoute: RouteContext?,
        now: UnixMilliseconds,
    ) {
        guard let header = RecordHeader(value), generation.map({ $0 == header.generation }) ?? true else {
            return self.skip(row, .deviceGone)
        }
        self.rows[row].generation = header.generation
        guard let view = DeviceRecordView(value, RecordHeader.byteCount..<value.count) else {
            return self.skip(row, .malformed)
        }
        if send.listsRecipients { self.setDevice(view.device(in: value), of: row) }
        let finding = send.activity.map { $0.find(in: view, value, now: now) }
        let decision = RecipientEligibility.decide(
            suspicion: view.suspicion?.reason,
            isStoredElsewhere: storedRoute != nil,
            // The predicate applies to the realm in which the record is stored, not to the route that it is sent on.
            isInAudience: predicate.matches(view, header, value, (storedRoute ?? context).realm),
            token: finding.map { .init($0) } ?? .own(isOfRoute: context.tokenKinds.contains(view.tokenKind)),
            subscription: self.keyBytes > 0
                ? .init(hasKeys: view.hasRecipientKeys, expiresAtSeconds: view.expiresAtSeconds) : nil,
            now: now,
        )
        switch decision {
        case .skip(let reason): return self.skip(row, reason)
        case .send(let wasRefused, let isEnvironmentKnown):
            self.rows[row].wasRefused = wasRefused
            self.rows[row].isEnvironmentKnown = isEnvironmentKnown
        }
        var token = view.token
        if case .token(let place, _)? = finding { token = place }
        self.rows[row].tokenOffset = UInt32(self.tokens.count)
        self.rows[row].tokenLength = UInt16(clamping: token.count)
        self.rows[row].variant = UInt16(context.messages.variantIndex(forLocale: value.extracting(view.locale)))
        self.rows[row].isInstallation = view.tokenKind == .installation
        unsafe value.extracting(token).withUnsafeBufferPointer { unsafe self.tokens.append(contentsOf: $0) }
        guard self.keyBytes > 0 else { return }
        view.appendRecipientKeys(in: value, to: &self.tokens)
    }

    private mutating func skip(_ row: Int, _ reason: Reason) {
        self.rows[row].verdict = .skipped
        self.rows[row].verdictReason = reason
    }
}

extension SendContext.Predicate {
    /// Returns true when a record, as it is now, meets the predicate.
    fileprivate func matches(
        _ view: DeviceRecordView,
        _ header: RecordHeader,
        _ value: Span<UInt8>,
        _ realm: Realm,
    ) -> Bool {
        switch self {
        case .exists: true
        case .devices(let devices): devices.contains(view.device(in: value))
        case .audience(let audience): audience[realm].matches(view, header, in: value)
        case .topics(let expression):
            withoutEscaping(expression, view, value)
        case .users(let users): users.contains { DeviceRecordView.isEqual(view.user, $0.span, in: value) }
        }
    }

    private func withoutEscaping(_ expression: TopicExpression, _ view: DeviceRecordView, _ value: Span<UInt8>) -> Bool
    {
        expression.matches { $0 == TopicExpression.everyoneNumber || view.hasTopic($0, in: value) }
    }
}
