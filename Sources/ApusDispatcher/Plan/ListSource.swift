internal import ApusCore
internal import ApusMessages
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Finds a route's recipients in a list: addresses by their index, devices and users by lookup. An audience that a
/// provider holds is a list with one entry.
///
/// The plan of each route walks the whole list and takes its own recipients.
struct ListSource: RecipientSource {
    let planner: Planner
    let context: SendContext
    let share: PlanShare

    /// The maximum number of devices or users looked up in one step.
    private static let lookupMax = 128

    func next(after cursor: PlanCursor, unitsMax: Int) async throws -> RecipientFind {
        guard case .list(let index) = cursor else { preconditionFailure("a list needs a list's cursor") }
        switch self.context.command.target {
        case .addresses(let addresses): return self.addresses(addresses, from: index)
        case .devices(let ids): return try await self.devices(ids, from: index)
        case .users(let ids): return try await self.users(ids, from: index, unitsMax: unitsMax)
        default:
            precondition(self.context.command.target.holder != nil, "an audience is no list")
            return self.heldAudience
        }
    }

    private var noneClosed: ClosedRecipients {
        ClosedRecipients(listed: self.context.listsRecipients, at: self.planner.clock.now())
    }

    private var heldAudience: RecipientFind {
        var find = RecipientFind(next: .list(index: 1), isLast: true)
        var closed = self.noneClosed
        switch self.share.part(of: self.context.routes.keys.first) {
        case .mine: find.units = [self.planner.unit(self.context, self.share.route, .addresses([0]))]
        case .nobodys: closed.add(self.context.anyProvider, .failed, .noRoute)
        case .others: break
        }
        find.closed = closed
        return find
    }

    private func addresses(_ addresses: [Address], from index: Int) -> RecipientFind {
        let end = min(addresses.count, index + Planner.unitRecipientsMax)
        var mine: [UInt32] = []
        var closed = self.noneClosed
        for position in addresses.indicesWithoutRepeats where (index..<end).contains(position) {
            let route = self.context.route(of: addresses[position])
            let number = self.context.number(of: addresses[position])
            switch self.share.part(of: number) {
            case .mine where route != nil: mine.append(UInt32(position))
            // Nobody's, or of a route that the configuration has lost.
            case .mine, .nobodys: closed.addUnrendered(addresses[position], at: position, of: self.context)
            case .others: break
            }
        }
        var find = RecipientFind(next: .list(index: end), isLast: end == addresses.count)
        if !mine.isEmpty { find.units = [self.planner.unit(self.context, self.share.route, .addresses(mine))] }
        find.closed = closed
        return find
    }

    private func devices(_ ids: [String], from index: Int) async throws -> RecipientFind {
        let end = min(ids.count, index + Self.lookupMax)
        let app = try AppID(self.context.command.app)
        let wanted = try ids[index..<end].map { id throws(IdentifierError) in try DeviceID(id) }
        let found = try await self.planner.store.find(app, devices: wanted)
        return try self.find(found, next: end, isLast: end == ids.count)
    }

    private func users(_ ids: [String], from index: Int, unitsMax: Int) async throws -> RecipientFind {
        // Even if every user has the maximum number of devices, they fit into the units of one step and, one by one, into its batch.
        let recipientsMax =
            self.context.listsRecipients ? Limits.unitRecipientsMax : unitsMax * Planner.unitRecipientsMax
        let fitting = recipientsMax / StoreLimits.devicesPerUserMax
        let end = min(ids.count, index + max(1, min(fitting, Self.lookupMax)))
        let app = try AppID(self.context.command.app)
        let wanted = try ids[index..<end].map { id throws(IdentifierError) in try UserID(id) }
        let found = try await self.planner.store.find(app, users: wanted).joined()
        return try self.find(Array(found), next: end, isLast: end == ids.count)
    }

    private func find(_ found: [FoundDevice?], next: Int, isLast: Bool) throws -> RecipientFind {
        var mine: [DeviceReference] = []
        var closed = self.noneClosed
        let app = try AppID(self.context.command.app)
        for device in found {
            let route = device.map { $0.realm.route(of: app) }
            let isConfigured = route.flatMap { self.context.context(of: $0) } != nil
            switch (self.share.part(of: route.flatMap { self.context.number(of: $0) }), device) {
            case (.mine, .device(let device)?) where isConfigured: mine.append(device.reference)
            case (.mine, .corrupt(let record)?) where isConfigured:
                closed.addCorrupt(record, app: app.text, logger: self.planner.logger)
            // Nobody's, or of a route that the configuration has lost.
            case (.mine, let device?), (.nobodys, let device?): closed.addUnrendered(device, of: self.context)
            case (.nobodys, nil): closed.add(self.context.anyProvider, .skipped, .deviceGone)
            case (.mine, nil), (.others, _): break
            }
        }
        mine.sort { ($0.partition, $0.ordinal) < ($1.partition, $1.ordinal) }
        var find = RecipientFind(next: .list(index: next), isLast: isLast)
        for start in stride(from: 0, to: mine.count, by: Planner.unitRecipientsMax) {
            let part = Array(mine[start..<min(start + Planner.unitRecipientsMax, mine.count)])
            find.units.append(self.planner.unit(self.context, self.share.route, .references(part)))
        }
        find.closed = closed
        return find
    }
}

extension SendContext {
    /// Returns the number of an address's route, if it has one.
    func number(of address: Address) -> RouteNumber? {
        guard let app = try? AppID(self.command.app) else { return nil }
        return self.number(of: Route(app: app, provider: address.provider, environment: address.environment))
    }

    /// Returns the route of an address; nil if it is not configured.
    func route(of address: Address) -> RouteContext? {
        guard let app = try? AppID(self.command.app) else { return nil }
        return self.context(of: Route(app: app, provider: address.provider, environment: address.environment))
    }
}
