package import ApusCore
internal import ApusMessages
internal import ApusRegistration
package import ApusStore

/// Registers the devices of an export again. A line with a time that was taken before changes nothing, whatever its device has changed since; a
/// device that registered, logged in or logged out later than its line says is kept.
package struct StoreImport: Sendable {
    /// The treatment of lines that do not say when their device was registered.
    package enum UndatedLines: Hashable, Sendable {
        /// They count as registered now: they replace what is there.
        case replace
        /// They count as registered at that time.
        case asOf(UnixMilliseconds)
        /// They create devices that are not there, with tokens that no other device has. All others are kept.
        case createOnly
    }

    /// The number of lines that are imported concurrently.
    private static let batchMax = 64
    /// The maximum number of mistakes that are listed.
    private static let mistakesMax = 20

    /// The number of lines that were read.
    package private(set) var lines = 0
    /// The number of devices that were created.
    package private(set) var created = 0
    /// The number of devices that were updated.
    package private(set) var updated = 0
    /// The number of devices that already had the line's values.
    package private(set) var unchanged = 0
    /// The number of lines whose device was kept as it is: it registered, logged in or logged out later than the line says, the line was taken before, or
    /// it may only create devices.
    package private(set) var ignored = 0
    /// The number of those lines whose device has another token than the line.
    package private(set) var outdated = 0
    /// The number of lines that were refused.
    package private(set) var refused = 0
    /// The number of lines without a device, by the reason.
    package private(set) var skipped: [String: Int] = [:]
    /// The first mistakes, with the numbers of their lines.
    package private(set) var mistakes: [(line: Int, rule: String)] = []

    private let store: DeviceStore
    private let app: AppID
    private let hosts: EndpointHosts
    private var export: ForeignExport
    private let undated: UndatedLines
    private let overwrites: Bool

    /// Creates an import into an app.
    ///
    /// - Parameters:
    ///   - endpointHosts: the hosts of endpoints besides those of the known push services.
    ///   - export: the form of the lines.
    ///   - undated: the treatment of lines without a time.
    ///   - overwrites: true to carry lines out that were taken before.
    package init(
        _ store: DeviceStore,
        app: AppID,
        endpointHosts: [String],
        export: ForeignExport = ForeignExport(.apus),
        undated: UndatedLines = .replace,
        overwrites: Bool = false,
    ) {
        self.export = export
        self.undated = undated
        self.overwrites = overwrites
        self.store = store
        self.app = app
        self.hosts = EndpointHosts(further: endpointHosts)
    }

    /// Imports lines until there are none, and numbers them from 1.
    package mutating func run(_ next: () -> [UInt8]?) async throws {
        var number = 0
        try await self.runNumbered {
            number += 1
            return next().map { (number: number, bytes: $0) }
        }
    }

    /// Imports lines with their numbers until there are none.
    package mutating func runNumbered(_ next: () -> (number: Int, bytes: [UInt8])?) async throws {
        var batch: [(number: Int, line: DeviceLine)] = []
        var devices: Set<String> = []
        var tokens: Set<[UInt8]> = []
        while !self.export.isUnreadable, let (number, bytes) = next() {
            self.lines += 1
            guard !bytes.isEmpty, let converted = self.converted(bytes, number) else { continue }
            do throws(InvalidJSON) {
                let line = try DeviceLine(parsing: converted, hosts: self.hosts)
                let registration = line.registration
                // One that cannot be stored is refused with its line.
                let token = try? DeviceToken.stored(registration.token, of: registration.provider)
                // Lines about a device, or with a token, take effect in their order: the earlier one must be done before.
                let isRepeated =
                    devices.contains(registration.device) || token.map { tokens.contains($0) } ?? false
                if batch.count == Self.batchMax || isRepeated {
                    await self.take(batch)
                    (batch, devices, tokens) = ([], [], [])
                }
                devices.insert(registration.device)
                if let token { tokens.insert(token) }
                batch.append((number, line))
            } catch {
                self.refuse(number, error.description)
            }
        }
        await self.take(batch)
    }

    /// Returns a line of ours; nil when the line has none.
    private mutating func converted(_ bytes: [UInt8], _ number: Int) -> [UInt8]? {
        switch self.export.convert(bytes) {
        case .line(let line): return line
        case .header: return nil
        case .skipped(let reason): self.skipped[reason, default: 0] += 1
        case .refused(let rule): self.refuse(number, rule)
        }
        return nil
    }

    private mutating func refuse(_ line: Int, _ rule: String) {
        self.refused += 1
        if self.mistakes.count < Self.mistakesMax { self.mistakes.append((line, rule)) }
    }

    private mutating func take(_ batch: [(number: Int, line: DeviceLine)]) async {
        let (store, app) = (self.store, self.app)
        let lines = batch.map { self.timed($0.line) }
        let stored = await store.register(
            app,
            lines.map(\.line.registration),
            asOf: lines.map(\.time),
            changedAt: lines.map(\.line.changedAt),
            importing: lines.map(\.part),
        )
        let results = await withTaskGroup(of: (Int, Result<RegisterResult.Change, StoreError>).self) { group in
            for (index, line) in lines.enumerated() {
                group.addTask { (index, await Self.finish(line, stored[index], app, store)) }
            }
            var results: [(Int, Result<RegisterResult.Change, StoreError>)] = []
            for await result in group { results.append(result) }
            return results
        }
        for (index, result) in results.sorted(by: { $0.0 < $1.0 }) {
            switch result {
            case .success(.created): self.created += 1
            case .success(.updated), .success(.tokenReplaced): self.updated += 1
            case .success(.unchanged): self.unchanged += 1
            case .success(.ignored):
                self.ignored += 1
                if Self.hasOtherToken(stored[index], than: lines[index].line) { self.outdated += 1 }
            case .failure(let error):
                let isHalfTaken = lines[index].part == .newDevice && (try? stored[index].get()) != nil
                self.refuse(batch[index].number, "\(error)" + (isHalfTaken ? Self.halfTaken : ""))
            }
        }
    }

    /// Returns true when the device that is stored has another token than the line.
    private static func hasOtherToken(_ stored: Result<RegisterResult, StoreError>, than line: DeviceLine) -> Bool {
        guard let device = try? stored.get().device else { return false }
        return device.record.token != (try? DeviceToken.stored(line.registration.token, of: line.registration.provider))
    }

    /// The end of a mistake about a line that only creates a device, and has created it: a repetition leaves that as it is.
    private static let halfTaken =
        "; the device is there, without all of its badge and activities: import this line again, alone, with --as-of 0s"

    /// A line with the time as of which it is registered, nil for the present, and the part of it that the registration is.
    private struct TimedLine {
        let line: DeviceLine
        let time: UnixMilliseconds?
        let part: DeviceStore.ImportedPart?
    }

    private func timed(_ line: DeviceLine) -> TimedLine {
        var time = line.registeredAt
        if time == nil, case .asOf(let given) = self.undated { time = given }
        let part: DeviceStore.ImportedPart?
        if time == nil, self.undated == .createOnly {
            part = .newDevice
        } else if self.overwrites {
            part = nil
        } else {
            // A line's own time tells a repetition that all of it was taken, so it is written last.
            let hasMore = !line.addresses.isEmpty || line.registration.badge != nil
            part = hasMore && time != nil ? .beginning : .whole
        }
        return TimedLine(line: line, time: time, part: part)
    }

    /// Stores what a line has besides its registration.
    private static func finish(
        _ timed: TimedLine,
        _ stored: Result<RegisterResult, StoreError>,
        _ app: AppID,
        _ store: DeviceStore,
    ) async -> Result<RegisterResult.Change, StoreError> {
        let line = timed.line
        do throws(StoreError) {
            let change = try stored.get().change
            guard change != .ignored, let device = try? DeviceID(line.registration.device) else {
                return .success(change)
            }
            for address in line.addresses { _ = try await store.putAddress(app, device, address) }
            if let badge = line.registration.badge { _ = try await store.setBadge(app, device, to: badge) }
            if timed.part == .beginning {
                _ = try await store.register(app, line.registration, asOf: timed.time, changedAt: line.changedAt)
            }
            return .success(change)
        } catch {
            let isThere = timed.part == .newDevice && error.code == .preconditionFailed
            return isThere ? .success(.ignored) : .failure(error)
        }
    }

    /// The result as JSON.
    package var json: JSONObject {
        let mistakes = self.mistakes.map { mistake -> JSONValue in
            ["line": .integer(mistake.line), "rule": .string(mistake.rule)]
        }
        var skipped = JSONObject()
        for (reason, count) in self.skipped.sorted(by: { $0.key < $1.key }) { skipped[reason] = .integer(count) }
        return [
            "lines": .integer(self.lines), "created": .integer(self.created), "updated": .integer(self.updated),
            "unchanged": .integer(self.unchanged), "ignored": .integer(self.ignored),
            "refused": .integer(self.refused), "mistakes": .array(mistakes),
            "skipped": .object(skipped),
        ]
    }

    /// The result as lines.
    package var text: [String] {
        let skipped = self.skipped.sorted { $0.key < $1.key }.map { "\($0.value) left out: \($0.key)" }
        return self.mistakes.map { "line \($0.line): \($0.rule)" } + skipped + [
            "\(self.lines) lines: \(self.created) created, \(self.updated) updated, \(self.unchanged) unchanged, "
                + "\(self.ignored) kept, \(self.refused) refused"
        ]
    }
}
