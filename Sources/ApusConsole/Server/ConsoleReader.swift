internal import ApusCommand
internal import ApusCore
internal import ApusDispatcher
internal import ApusInstallation
internal import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal
internal import Logging
internal import NIOPosix

/// Reads from Redis what the pages show.
struct ConsoleReader: Sendable {
    /// The maximum of receipts that are searched for those of one send.
    static let receiptsReadMax = 2_000
    /// The maximum of devices that the quarantine of a route shows one by one.
    static let quarantineSamplesMax = 10
    /// The maximum of direct sends that the list shows below the others.
    static let directShownMax = 10
    /// The maximum of devices whose history is shown at once: more than a user may have.
    static let devicesShownMax = 100

    /// The maximum of a route's quarantined tokens whose reasons are counted.
    static let quarantinedCountedMax = 20 * StreamLimits.quarantinedTokensPerCallMax

    let installation: Installation
    /// The services' configuration.
    let configuration: SettingsSource
    let clock: any WallClock
    /// True when whoever reads may see the whole installation. To others no reason is shown why a process is not ready or a configuration not
    /// valid: it may name other apps.
    let isOfWhole: Bool

    private var streams: SendStreams { self.installation.streams }

    // MARK: Apps and keys

    /// The apps of the services' configuration; none when it is not at hand, or not valid.
    private var settings: [AppID: AppSettings] {
        ConfigurationCheck.common(of: self.configuration)?.apps ?? [:]
    }

    /// Returns the names of all apps that are known, sorted.
    func apps() async throws -> [String] {
        let routes = try await InstallationCopies(self.installation.client).routes(of: self.streams)
        return Set(routes.compactMap { Route($0.name)?.app.text }).union(self.settings.keys.map(\.text)).sorted()
    }

    /// Returns the admin keys of an app: those in Redis, and those of the configuration.
    func adminKeys(of app: AppID) async throws -> [(name: String, sha256: [UInt8])] {
        let stored = try await APIKeys(self.installation.client).list(app)
            .filter { $0.role == .admin }.map { (name: $0.name, sha256: $0.sha256) }
        let configured = (self.settings[app]?.auth.apiKeys ?? [:])
            .filter { $0.value.role == .admin }.map { (name: $0.key, sha256: $0.value.sha256) }
        return stored + configured
    }

    // MARK: Overview

    /// Returns what the overview shows of some apps: that of the shards that answer, and which do not.
    ///
    /// - Parameter rates: the recipients that ended in a second, the newest last.
    func overview(of apps: [String], rates: [Double]) async throws -> OverviewContent {
        let (now, streams) = (self.clock.now(), self.streams)
        let reach = await Reachability(of: streams)
        var overview = OverviewContent()
        overview.rates = rates
        let known = try await InstallationCopies(self.installation.client).routes(of: streams)
        let routes = try await RouteControlReport(streams, within: reach).rows(among: known).filter { row in
            Route(row.route).map { apps.contains($0.app.text) } ?? false
        }
        let rows = try await StreamBacklog(streams, within: reach).rows(among: known)
        var findings = Diagnosis.silence(reach)
        if reach.has(.services) {
            let reported = try await streams.processes.all()
            let processes = self.isOfWhole ? reported : reported.map(\.withoutReasons)
            let stopped = try await streams.processes.stopped()
            findings += ServiceReport(processes, stopped: stopped).findings(beside: rows)
            overview.processes = processes.sorted { ($0.service, $0.name) < ($1.service, $1.name) }
            overview.stopped = stopped
        }
        overview.hasServices = reach.has(.services)
        findings += Diagnosis.routes(routes)
        findings += Diagnosis.streams(try await StreamReading.all(in: streams, within: reach))
        overview.concerns =
            findings.filter { $0.verdict == .fail } + findings.filter { $0.verdict == .warn }
        overview.open = try await streams.sendLists.open(in: reach.shards).filter { apps.contains($0.send.app) }
            .sorted { ($0.ledger.acceptedAt?.value ?? 0) > ($1.ledger.acceptedAt?.value ?? 0) }
            .map { (app: $0.send.app, status: SendStatus(send: $0.send.id, ledger: $0.ledger, now: now)) }
        let totals = StreamBacklog.totals(rows)
        overview.waiting = totals.filter { $0.name != StreamBacklog.deadLetters }
        overview.deadLetters = totals.first { $0.name == StreamBacklog.deadLetters }?.backlog ?? 0
        return overview
    }

    // MARK: Sends

    /// Returns a page of an app's sends.
    func sends(
        of app: AppID,
        state: SendLists.State?,
        search: String,
        from cursor: SendListCursor?,
    ) async throws -> SendList {
        let found = try await self.streams.sendLists.page(
            of: app,
            limit: 50,
            from: cursor,
            state: state,
            search: search,
        )
        let (now, lists) = (self.clock.now(), self.streams.sendLists)
        let commands = await withTaskGroup(of: (String, SendCommand?).self) { group in
            for row in found.rows {
                group.addTask {
                    (row.send, try? await lists.command(of: SendKey(app: app.text, id: row.send), tag: row.tag))
                }
            }
            return await group.reduce(into: [String: SendCommand]()) { $0[$1.0] = $1.1 }
        }
        let rows = found.rows.map { row -> SendList.Row in
            let command = commands[row.send]
            return SendList.Row(
                status: SendStatus(send: row.send, ledger: row.ledger, now: now),
                acceptedAt: row.ledger.acceptedAt,
                ratePerSecond: row.ledger.ratePerSecond,
                title: command.map { $0.notification.title.isEmpty ? $0.notification.body : $0.notification.title }
                    ?? "",
                target: command.map { TargetText.words($0.target) } ?? "",
            )
        }
        var list = SendList(rows: rows, next: found.next, state: state, search: search, isFurther: cursor != nil)
        if search.isEmpty, state == nil, cursor == nil {
            list.direct = try await lists.latestDirect(of: app, limit: Self.directShownMax)
        }
        if !search.isEmpty, state == nil, cursor == nil, !rows.contains(where: { $0.status.send == search }),
            let direct = try await lists.direct(search, of: app, now: now)
        {
            list.rows.insert(SendList.Row(status: direct, ratePerSecond: 0, title: "", target: "A direct send"), at: 0)
        }
        return list
    }

    /// Returns what is known of a send; nil when nothing is.
    ///
    /// - Parameter isWhole: false for the part that changes while the send is under way.
    func send(_ app: AppID, _ send: SendID, isWhole: Bool) async throws -> SendDetails? {
        let (now, key) = (self.clock.now(), SendKey(app: app.text, id: send.text))
        var details: SendDetails
        var places = [self.streams.home(app: app.text, send.text)]
        if let found = try await self.streams.control.find(app: app.text, send: send.text) {
            details = SendDetails(
                status: SendStatus(send: send.text, ledger: found.ledger, now: now),
                ledger: found.ledger
            )
            places = found.places
        } else {
            guard let status = try await self.streams.outcomes.status(app: app, send: send, now: now) else {
                return nil
            }
            details = SendDetails(status: status)
        }
        let observer = SendObserver(self.streams, app: app.text, send: send.text)
        if !details.status.isOver {
            let search = SendObstacles(self.streams, hidesReasons: !self.isOfWhole)
            details.obstacles = try await search.find(observer, details.status).map(\.sentence)
        }
        let tally = try await self.streams.events.counts(app: app.text, send: send.text)
        details.events = ClientEvent.Kind.allCases.compactMap { kind in
            let count = tally.total(kind)
            return count > 0 ? (kind: kind.name, count: count) : nil
        }
        details.audit = try await self.streams.audit.newest(20, app: app.text, object: send.text)
        guard isWhole else { return details }
        details.command = try await self.streams.sendLists.command(of: key, tag: places[0].tag)
        for keys in places {
            details.receipts += try await self.receipts(of: key, in: keys, since: details.ledger?.acceptedAt)
        }
        details.receipts.sort { $0.at < $1.at }
        if let command = details.command { details.renderings = (try? await self.dryRun(command))?.renderings }
        return details
    }

    private func receipts(
        of send: SendKey,
        in keys: StreamKeys,
        since: UnixMilliseconds?,
    ) async throws -> [(at: UnixMilliseconds, receipt: SendReceipt)] {
        let command = RedisCommand(
            "XRANGE",
            .text(keys.receipts),
            .text(since.map { "\($0.value)" } ?? "-"),
            "+",
            "COUNT",
            .integer(Self.receiptsReadMax)
        )
        let reply = try await self.streams.client.send(command, on: keys.tag, options: .idempotent)
        return reply.root.children.compactMap { entry in
            guard let id = entry.element(0)?.string, let time = Int64(id.prefix { $0 != "-" }),
                let receipt = try? SendReceipt.decode(entry.element(1)?.element(1)?.bytes ?? []),
                receipt.send == send.id, receipt.app == send.app
            else { return nil }
            return (at: UnixMilliseconds(time), receipt: receipt)
        }
    }

    /// Returns what a command would do.
    ///
    /// - Throws: `CommandFailure` when the services' configuration is not at hand; `Problem` when the command would be refused.
    func dryRun(_ command: SendCommand) async throws -> DryRunReport {
        guard let source = ConfigurationAccess.services(in: self.configuration) else {
            throw Self.noConfiguration("recipients and payloads")
        }
        guard self.isOfWhole || ConfigurationCheck.common(of: source) != nil else {
            throw Self.invalidConfiguration(mistake: nil)
        }
        let settings = try ConfigurationAccess.dispatcher(in: self.configuration)
        let dryRun = try await DryRun(
            settings.common.apps,
            of: self.installation,
            clock: self.clock,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
        )
        return try await dryRun.run(command, asksProviders: false)
    }

    // MARK: Devices

    /// Returns the devices with an id, a user or a token.
    func devices(of app: AppID, device: String, user: String, token: String) async throws -> DeviceSearch {
        var search = DeviceSearch(device: device, user: user, token: token)
        let store = self.installation.store
        var stored: [StoredDevice] = []
        if !device.isEmpty {
            let id = try DeviceID(device)
            let found = try await store.get(app, id)
            let events = try await store.history(app, id)
            if found == nil, !events.isEmpty {
                search.found = [.init(id: device, device: nil, topics: [], events: events)]
                return search
            }
            stored = found.map { [$0] } ?? []
        } else if !user.isEmpty {
            stored = try await store.devices(app, ofUser: try UserID(user))
        } else if !token.isEmpty {
            for bytes in Self.tokens(token) {
                do throws(StoreError) {
                    if let found = try await store.find(app, token: bytes) { stored.append(found) }
                } catch {
                    // A token that changes hands is nobody's for that moment.
                    guard error.code == .contended else { throw error }
                }
            }
        } else {
            return search
        }
        search.found = []
        for found in stored.prefix(Self.devicesShownMax) {
            let names = try await store.topicNames(app, found.record.topics)
            search.found?.append(
                .init(
                    id: found.id,
                    device: found,
                    topics: names.compactMap { $0?.text },
                    events: try await store.history(app, try DeviceID(found.id))
                )
            )
        }
        return search
    }

    /// Returns the bytes that a token's text may stand for: those of hexadecimal digits, and those of the text.
    private static func tokens(_ text: String) -> [[UInt8]] {
        let text = text.filter { !$0.isWhitespace }
        return [Hexadecimal.decode(text[...]), Array(text.utf8)].compactMap(\.self).filter { !$0.isEmpty }
    }

    // MARK: Audiences

    /// Returns the number of devices by route.
    func deviceCounts(of app: AppID) async throws -> [(route: String, count: Int)] {
        var counts: [(route: String, count: Int)] = []
        for realm in Realm.allCases {
            let route = realm.route(of: app)
            counts.append((route: "\(route)", count: try await self.installation.store.deviceCount(route)))
        }
        return counts
    }

    /// Returns the names of an app's topics, sorted.
    func topics(of app: AppID) async throws -> [String] {
        try await self.installation.store.topics(of: app).map(\.text)
    }

    // MARK: Operation

    /// Returns the routes of an app.
    func routes(of app: AppID) async throws -> [RouteControlReport.Row] {
        try await RouteControlReport(self.streams).rows().filter { Route($0.route)?.app == app }
    }

    /// Returns the credentials of an app, without asking providers, or why the services' configuration does not tell them.
    func credentials(of app: AppID) async throws -> Result<[CredentialCheck.Finding], CommandFailure> {
        guard let source = ConfigurationAccess.services(in: self.configuration) else {
            return .failure(Self.noConfiguration("credentials and when they expire"))
        }
        guard let common = ConfigurationCheck.common(of: source) else {
            let mistake = self.isOfWhole ? ConfigurationCheck(source).mistakes.first : nil
            return .failure(Self.invalidConfiguration(mistake: mistake.map { "\($0.issue)" }))
        }
        guard let settings = common.apps[app] else {
            return .failure(CommandFailure("The services' configuration does not name the app \(app)."))
        }
        return .success(
            try await CredentialReport.make([app: settings], of: self.installation, asksProviders: false).findings
        )
    }

    private static func invalidConfiguration(mistake: String?) -> CommandFailure {
        let detail = mistake.map { ": \($0)" } ?? ""
        let cure = "apus config check shows every mistake"
        return CommandFailure("The services' configuration is not valid\(detail); \(cure).")
    }

    private static func noConfiguration(_ what: String) -> CommandFailure {
        CommandFailure(
            "The services' configuration is not at hand here: start apus-console with --config to see \(what)."
        )
    }

    /// Returns the newest dead letters of an app, with what a replay of each would do.
    func deadLetters(
        of app: AppID,
        cause: DeadLetter.Cause?,
    ) async throws -> [(letter: StoredDeadLetter, replay: String)] {
        let dead = DeadLetters(self.streams)
        var letters: [(letter: StoredDeadLetter, replay: String)] = []
        for letter in try await dead.newest(DeadLettersView.countMax, Self.filter(app, cause)) {
            letters.append((letter: letter, replay: try await dead.replayPreview(of: letter)))
        }
        return letters
    }

    /// Returns the filter of an app's dead letters.
    static func filter(_ app: AppID, _ cause: DeadLetter.Cause?) -> DeadLetters.Filter {
        var filter = DeadLetters.Filter()
        filter.app = app.text
        filter.cause = cause
        return filter
    }

    /// Returns the quarantined tokens of an app's routes, with their reasons, and some of their devices with the provider's own words.
    func quarantine(of app: AppID) async throws -> [QuarantineView.QuarantinedRoute] {
        let numbers = try await self.streams.routes.all()
        var found: [QuarantineView.QuarantinedRoute] = []
        for row in try await Quarantines(self.installation).rows() {
            guard let route = Route(row.route), route.app == app,
                let number = numbers.first(where: { $0.name == row.route })?.number
            else { continue }
            var tokens: [QuarantinedToken] = []
            while tokens.count < Self.quarantinedCountedMax {
                let more = try await self.streams.quarantine.tokens(of: number, from: tokens.count)
                guard !more.isEmpty else { break }
                tokens += more
            }
            let reasons = Dictionary(grouping: tokens, by: \.reason).map {
                (reason: $0.key.name, count: $0.value.count)
            }
            var samples: [QuarantineView.Sample] = []
            for token in tokens.prefix(Self.quarantineSamplesMax) {
                guard let device = try await self.installation.store.read(route, token.reference) else { continue }
                let history = try await self.installation.store.history(app, try DeviceID(device.id))
                let word = history.max {
                    ($0.providerReason.isEmpty ? 0 : $0.at.value) < ($1.providerReason.isEmpty ? 0 : $1.at.value)
                }
                samples.append(
                    QuarantineView.Sample(
                        device: device.id,
                        reason: token.reason.name,
                        word: word?.providerReason ?? "",
                        since: token.since
                    )
                )
            }
            let sorted = reasons.sorted { $0.count > $1.count }
            found.append(QuarantineView.QuarantinedRoute(row: row, reasons: sorted, samples: samples))
        }
        return found
    }
}
