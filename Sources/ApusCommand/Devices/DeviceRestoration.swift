package import ApusCore
package import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal

/// Brings back devices that a provider's word removed, for `apus device restore`.
package struct DeviceRestoration: Sendable {
    /// Counts the devices of one route by what the restoration did with them.
    package struct Report: Hashable, Sendable {
        /// The name of the route.
        package var route: String
        /// Devices that are there again, or would be.
        package var restored = 0
        /// Devices that had registered again.
        package var registered = 0
        /// Devices whose token another one has by now.
        package var tokenTaken = 0
        /// Devices that were forgotten meanwhile, or whose time is over.
        package var forgotten = 0
        /// Devices that could not be brought back; asking again may help.
        package var failed = 0
        /// Devices whose records cannot be read.
        package var unreadable = 0

        /// All devices that were to be brought back.
        package var devices: Int {
            self.restored + self.registered + self.tokenTaken + self.forgotten + self.failed + self.unreadable
        }

        /// A report of a route.
        package init(route: String) { self.route = route }

        /// The restoration as JSON.
        package var json: JSONObject {
            [
                "route": .string(self.route), "restored": .integer(self.restored),
                "registered": .integer(self.registered), "token_taken": .integer(self.tokenTaken),
                "forgotten": .integer(self.forgotten), "failed": .integer(self.failed),
                "unreadable": .integer(self.unreadable),
            ]
        }

        /// Returns the restoration as a line of text.
        ///
        /// - Parameter isTrial: whether nothing was changed.
        package func line(isTrial: Bool) -> String {
            let done = isTrial ? "can be brought back" : "brought back"
            var words = ["\(NumberText.grouped(self.restored)) \(done)"]
            if self.unreadable > 0 {
                words.append("the records of \(NumberText.grouped(self.unreadable)) cannot be read")
            }
            guard !isTrial else { return "\(self.route)  \(words.joined(separator: ", "))" }
            if self.registered > 0 { words.append("\(NumberText.grouped(self.registered)) had registered again") }
            if self.tokenTaken > 0 {
                words.append("the tokens of \(NumberText.grouped(self.tokenTaken)) are other devices' now")
            }
            if self.forgotten > 0 { words.append("\(NumberText.grouped(self.forgotten)) were forgotten meanwhile") }
            if self.failed > 0 { words.append("\(NumberText.grouped(self.failed)) failed: ask again") }
            return "\(self.route)  \(words.joined(separator: ", "))"
        }

        mutating func count(_ result: DeviceStore.RestoreResult?) {
            switch result {
            case .restored: self.restored += 1
            case .registered: self.registered += 1
            case .tokenTaken: self.tokenTaken += 1
            case .forgotten: self.forgotten += 1
            case nil: self.failed += 1
            }
        }
    }

    private let streams: SendStreams
    private let store: DeviceStore

    /// The devices of an installation.
    package init(_ installation: Installation) {
        self.streams = installation.streams
        self.store = installation.store
    }

    /// Brings back the devices of the routes that a name means. Of several in the period that have had the same token, the one that registered it
    /// last gets it.
    /// Broken off, it is done by asking again.
    ///
    /// - Parameters:
    ///   - name: "app/provider" for every environment, or "app/provider/environment".
    ///   - period: when they were removed.
    ///   - isTrial: whether they are only counted.
    /// - Throws: `CommandFailure` when there is no such route.
    package func restore(
        _ name: String,
        removedIn period: Range<UnixMilliseconds>,
        isTrial: Bool,
    ) async throws -> [Report] {
        let routes = try await self.streams.routes.all(named: name).compactMap { Route($0.name) }
        var tokens = FormerTokens()
        for route in routes {
            _ = try await self.forEachPart(of: route, removedIn: period) { tokens.note($0) }
        }
        var reports = routes.map { Report(route: "\($0)") }
        var contested: [(report: Int, device: DeviceStore.PrunedDevice)] = []
        for (index, route) in routes.enumerated() {
            reports[index].unreadable = try await self.forEachPart(of: route, removedIn: period) { pruned in
                let others = pruned.filter { tokens.isContested($0) }
                contested += others.map { (index, $0) }
                if isTrial {
                    reports[index].restored += pruned.count - others.count
                } else {
                    let results = try await self.restore(pruned.filter { !tokens.isContested($0) })
                    for result in results { reports[index].count(result) }
                }
            }
        }
        contested.sort { FormerTokens.isLater($0.device, than: $1.device) }
        var failed = FormerTokens()
        for (index, device) in contested {
            if isTrial {
                if tokens.take(device) { reports[index].restored += 1 } else { reports[index].tokenTaken += 1 }
            } else {
                // While the last one has not come back, it is too early for those before it.
                let result = failed.has(device) ? nil : try await self.restore([device])[0]
                if result == nil { failed.note([device]) }
                reports[index].count(result)
            }
        }
        return reports
    }

    /// Passes on the removed devices of a route, a partition at a time.
    ///
    /// - Returns: the number of those whose records cannot be read.
    private func forEachPart(
        of route: Route,
        removedIn period: Range<UnixMilliseconds>,
        _ body: ([DeviceStore.PrunedDevice]) async throws -> Void,
    ) async throws -> Int {
        var unreadable = 0
        for partition in 0..<self.store.keys.keyspace.devicePartitions {
            let pruned = try await self.store.prunedDevices(route, partition, in: period)
            unreadable += pruned.unreadable
            try await body(pruned.devices)
        }
        return unreadable
    }

    /// Brings back one device.
    ///
    /// - Throws: `CommandFailure` when nothing is known of it any more.
    package func restore(_ app: AppID, _ device: DeviceID) async throws -> Report {
        guard let pruned = try await self.store.prunedDevice(app, device) else {
            throw CommandFailure(
                "no device \(device.text) of \(app.text) was removed for its provider's word within feedback.undo_window"
            )
        }
        var report = Report(route: "\(pruned.device.realm.route(of: app))")
        report.count(try await self.store.restore(pruned))
        return report
    }

    /// - Returns: nil for a device that failed for a reason of its own.
    private func restore(_ pruned: [DeviceStore.PrunedDevice]) async throws -> [DeviceStore.RestoreResult?] {
        let store = self.store
        return try await forEachConcurrently(pruned) { device -> DeviceStore.RestoreResult? in
            do throws(StoreError) {
                return try await store.restore(device)
            } catch {
                guard error.isOfOneDevice else { throw error }
                return nil
            }
        }
    }
}

/// Finds the tokens that several removed devices have had, in eight bytes for each.
private struct FormerTokens {
    private var known: Set<UInt64> = []
    private var contested: Set<UInt64> = []

    mutating func note(_ devices: [DeviceStore.PrunedDevice]) {
        for device in devices {
            let digest = DeviceToken.digest(device.device.record.token)
            if !self.known.insert(digest).inserted { self.contested.insert(digest) }
        }
    }

    /// Returns whether the token of a device is known.
    func has(_ device: DeviceStore.PrunedDevice) -> Bool {
        self.known.contains(DeviceToken.digest(device.device.record.token))
    }

    /// Returns whether another device has had the token of that one as well.
    func isContested(_ device: DeviceStore.PrunedDevice) -> Bool {
        self.contested.contains(DeviceToken.digest(device.device.record.token))
    }

    /// Takes a contested token for a device; returns false when another one took it before.
    mutating func take(_ device: DeviceStore.PrunedDevice) -> Bool {
        self.known.remove(DeviceToken.digest(device.device.record.token)) != nil
    }

    /// Returns whether a device has had its token later than another one.
    static func isLater(_ one: DeviceStore.PrunedDevice, than other: DeviceStore.PrunedDevice) -> Bool {
        (one.device.registeredAt, one.prunedAt) > (other.device.registeredAt, other.prunedAt)
    }
}
