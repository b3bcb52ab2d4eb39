internal import ApusCore
internal import ApusMessages
internal import ApusStore
internal import ApusStreams

/// Finds the recipients of a list: addresses by their index, devices and users by looking them up.
struct ListSource: RecipientSource {
    let planner: Planner
    let context: SendContext

    /// Devices or users looked up in one step.
    private static let lookupMax = 128

    func next(after cursor: PlanCursor, unitsMax: Int) async throws -> RecipientFind {
        guard case .list(let index) = cursor else { preconditionFailure("a list needs a list's cursor") }
        switch self.context.command.target {
        case .addresses(let addresses): return self.addresses(addresses, from: index)
        case .devices(let ids): return try await self.devices(ids, from: index)
        case .users(let ids): return try await self.users(ids, from: index)
        case .topic, .condition, .everyone, .expression, .fcmTopic, .fcmCondition, .apnsChannel:
            preconditionFailure("an audience is no list")
        }
    }

    private func addresses(_ addresses: [Address], from index: Int) -> RecipientFind {
        let end = min(addresses.count, index + self.planner.settings.unitRecipientsMax)
        var byRoute: [RouteNumber: [UInt32]] = [:]
        var closed = ClosedCounts()
        for position in index..<end {
            if let context = self.context.route(of: addresses[position]) {
                byRoute[context.number, default: []].append(UInt32(position))
            } else {
                closed.add(addresses[position].provider, .failed, .noRoute)
            }
        }
        var find = RecipientFind(next: .list(index: end), isLast: end == addresses.count)
        find.units = byRoute.sorted { $0.key < $1.key }.map {
            self.planner.unit(self.context, $0.key, .addresses($0.value))
        }
        find.closed = closed.counts
        return find
    }

    private func devices(_ ids: [String], from index: Int) async throws -> RecipientFind {
        let end = min(ids.count, index + Self.lookupMax)
        let app = try AppID(self.context.command.app)
        let wanted = try ids[index..<end].map { id throws(IdentifierError) in try DeviceID(id) }
        let found = try await self.planner.store.resolve(app, devices: wanted)
        return self.find(found, next: end, isLast: end == ids.count)
    }

    private func users(_ ids: [String], from index: Int) async throws -> RecipientFind {
        let end = min(ids.count, index + Self.lookupMax)
        let app = try AppID(self.context.command.app)
        let wanted = try ids[index..<end].map { id throws(IdentifierError) in try UserID(id) }
        let found = try await self.planner.store.resolve(app, users: wanted).joined()
        return self.find(Array(found), next: end, isLast: end == ids.count)
    }

    private func find(_ devices: [StoredDevice?], next: Int, isLast: Bool) -> RecipientFind {
        var byRoute: [RouteNumber: [DeviceReference]] = [:]
        var closed = ClosedCounts()
        for device in devices {
            guard let device else {
                closed.add(self.context.anyProvider, .skipped, .deviceGone)
                continue
            }
            if let context = self.context.context(of: device.realm.route(of: device.app)) {
                byRoute[context.number, default: []].append(device.reference)
            } else {
                closed.add(device.realm.provider, .failed, .noRoute)
            }
        }
        var find = RecipientFind(next: .list(index: next), isLast: isLast)
        for (number, references) in byRoute.sorted(by: { $0.key < $1.key }) {
            let ordered = references.sorted { ($0.partition, $0.ordinal) < ($1.partition, $1.ordinal) }
            for start in stride(from: 0, to: ordered.count, by: self.planner.settings.unitRecipientsMax) {
                let part = Array(ordered[start..<min(start + self.planner.settings.unitRecipientsMax, ordered.count)])
                find.units.append(self.planner.unit(self.context, number, .references(part)))
            }
        }
        find.closed = closed.counts
        return find
    }
}

/// Counts recipients that end without being sent to.
struct ClosedCounts {
    private var cells: [OutcomeCount] = []

    /// The counts, one per kind.
    var counts: [OutcomeCount] { self.cells }

    mutating func add(_ provider: Provider, _ outcome: Outcome, _ reason: Reason) {
        if let index = self.cells.firstIndex(where: {
            $0.provider == provider && $0.outcome == outcome && $0.reason == reason
        }) {
            self.cells[index].count += 1
        } else {
            self.cells.append(OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: 1))
        }
    }
}

extension SendContext {
    /// The route of an address, if it is configured.
    func route(of address: Address) -> RouteContext? {
        guard let app = try? AppID(self.command.app) else { return nil }
        return self.context(of: Route(app: app, provider: address.provider, environment: address.environment))
    }

    /// A provider of the send, for what belongs to none.
    var anyProvider: Provider { self.routes.values.map(\.route.provider).min() ?? .apns }
}
