package import ApusCore
package import ApusInstallation
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

        /// All devices that were to be brought back.
        package var devices: Int { self.restored + self.registered + self.tokenTaken + self.forgotten + self.failed }

        /// A report of a route.
        package init(route: String) { self.route = route }

        /// The restoration as JSON.
        package var json: JSONObject {
            [
                "route": .string(self.route), "restored": .integer(self.restored),
                "registered": .integer(self.registered), "token_taken": .integer(self.tokenTaken),
                "forgotten": .integer(self.forgotten), "failed": .integer(self.failed),
            ]
        }

        /// Returns the restoration as a line of text.
        ///
        /// - Parameter isTrial: whether nothing was changed.
        package func line(isTrial: Bool) -> String {
            if isTrial { return "\(self.route)  \(NumberText.grouped(self.restored)) can be brought back" }
            var words = ["\(NumberText.grouped(self.restored)) brought back"]
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

    /// Brings back the devices of the routes that a name means. Broken off, it is done by asking again.
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
        var reports: [Report] = []
        for numbered in try await self.streams.routes.all(named: name) {
            guard let route = Route(numbered.name) else { continue }
            var report = Report(route: numbered.name)
            for partition in 0..<self.store.keys.keyspace.devicePartitions {
                let pruned = try await self.store.prunedDevices(route, partition, in: period)
                if isTrial {
                    report.restored += pruned.count
                } else {
                    for result in try await self.restore(pruned) { report.count(result) }
                }
            }
            reports.append(report)
        }
        return reports
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
