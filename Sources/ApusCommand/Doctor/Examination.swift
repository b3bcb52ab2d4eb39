internal import ApusCore
internal import ApusDispatcher
internal import ApusFeedback
internal import ApusInstallation
internal import ApusRedis
internal import ApusRegistration
package import ApusService
internal import ApusStreams
internal import ApusTLS
package import ApusTerminal
internal import FoundationEssentials
internal import NIOCore
internal import NIOPosix

/// Runs the checks of `apus doctor`. It changes nothing, and goes on after a check that fails.
package struct Examination: Sendable {
    /// The time limit of a connection to an endpoint.
    private static let connectDurationMax = TimeAmount.seconds(5)
    /// The remaining validity below which a certificate should have been renewed.
    private static let certificateWarnMilliseconds: Int64 = 14 * 86_400_000
    /// The maximum lifetime of provider tokens is an hour: a credential that is valid for longer is a certificate.
    private static let tokenMillisecondsMax: Int64 = 7_200_000

    private let source: SettingsSource?
    private let redis: RedisChoice
    private let asksOthers: Bool

    /// Creates an examination.
    ///
    /// - Parameters:
    ///   - source: the configuration; nil when there is none.
    ///   - redis: decides which Redis is examined.
    ///   - asksOthers: true to connect to providers and other endpoints, not only to Redis and files.
    package init(source: SettingsSource?, redis: RedisChoice, asksOthers: Bool) {
        self.source = source
        self.redis = redis
        self.asksOthers = asksOthers
    }

    /// Performs the checks.
    package func run() async -> Diagnosis {
        let check = self.source.map { ConfigurationCheck($0) }
        var diagnosis = Diagnosis(self.configuration(check))
        diagnosis.findings += Self.files(of: check)
        let admin = [check?.registration?.common, check?.dispatcher?.common, check?.feedback?.common].compactMap {
            $0?.admin.tls
        }
        diagnosis.findings += Set(admin.map(\.certificateFile)).sorted().map(Self.certificate)
        diagnosis.findings += await self.redis(check)
        if self.asksOthers, let check { diagnosis.findings += await Self.endpoints(of: check) }
        return diagnosis
    }

    // MARK: Configuration

    private func configuration(_ check: ConfigurationCheck?) -> [Diagnosis.Finding] {
        guard let check else {
            let detail =
                "there is none: --config names it, or the context, or without --redis and a context $APUS_CONFIG or "
                + SettingsSource.defaultFile
            return [.init(.warn, .configuration, detail, cure: "Name the services' configuration with --config")]
        }
        let mistakes = check.mistakes.map { mistake in
            Diagnosis.Finding(
                .fail,
                .configuration,
                ConfigurationCheck.words(mistake.services),
                "\(mistake.issue)",
                cure: "Correct it: running services go on with their former settings, and one that starts does not"
            )
        }
        // An app too few is told of with the verdict below.
        let warnings = (check.gaps.filter { $0.key.hasPrefix("apps.") } + check.warnings).map { warning in
            Diagnosis.Finding(.warn, .configuration, warning.key, "it \(warning.detail)", cure: warning.cure)
        }
        guard !check.valid.isEmpty else { return mistakes + warnings }
        let apps = check.common?.apps.count ?? 0
        let valid = Diagnosis.Finding(
            apps == 0 ? .warn : .ok,
            .configuration,
            ConfigurationCheck.words(check.valid),
            apps == 1 ? "valid, 1 app" : "valid, \(apps) apps",
            cure: apps == 0 ? "Add the apps under apps: nothing is sent for others" : "",
        )
        return mistakes + [valid] + warnings
    }

    /// Tells of keys that only registration reads, and checks its certificate. Keys that it cannot use are mistakes of the configuration.
    private static func files(of check: ConfigurationCheck?) -> [Diagnosis.Finding] {
        guard let check, let settings = check.registration else { return [] }
        var findings: [Diagnosis.Finding] = []
        let issuers = settings.common.apps.values.count { $0.auth.jwt != nil }
        if issuers > 0, check.valid.contains(.registration) {
            let apps = NumberText.counted(issuers, "app", "apps")
            findings.append(.init(.ok, .identity, "the keys of \(apps) can be used"))
        }
        if let tls = settings.own.tls { findings.append(Self.certificate(tls.certificateFile)) }
        return findings
    }

    private static func certificate(_ file: String) -> Diagnosis.Finding {
        guard let text = try? String(contentsOfFile: file, encoding: .utf8),
            let certificate = try? Certificate(pem: text)
        else {
            return .init(.fail, .certificate, file, "it is not a certificate in PEM", cure: "Replace the file")
        }
        let left = certificate.notAfter.milliseconds(since: SystemClock().now())
        guard left > 0 else {
            return .init(.fail, .certificate, file, "it has expired", cure: "Renew it: clients refuse it")
        }
        let words = "valid for \(NumberText.age(milliseconds: left))"
        guard left > Self.certificateWarnMilliseconds else {
            return .init(.warn, .certificate, file, words, cure: "Renew it: the file is read again when it changes")
        }
        return .init(.ok, .certificate, file, words)
    }

    // MARK: Redis

    private func redis(_ check: ConfigurationCheck?) async -> [Diagnosis.Finding] {
        var findings: [Diagnosis.Finding] = []
        var place = ""
        do {
            var configuration = try self.redis.configuration()
            configuration.patience = .zero
            place = configuration.places
            let deployment = configuration.deployment
            try await RedisAccess.withClient(configuration, origin: self.redis.origin) { client in
                switch deployment {
                case .server: findings += try await Self.server(client.configuration.endpoint, client, mayFollow: false)
                case .cluster: findings += await Self.cluster(client)
                case .sentinel(let sentinel):
                    if let sentinels = client.topology as? SentinelTopology {
                        findings += Diagnosis.sentinels(await sentinels.reports(), sentinel.masterName)
                    }
                    findings += try await Self.watched(client, sentinel.masterName)
                }
                findings += await self.installation(client, check)
            }
        } catch {
            let detail = (error as? RedisError)?.message ?? "\(error)"
            findings.append(.init(.fail, .connection, place, detail))
        }
        return findings
    }

    /// Checks the master that Sentinels watch, and its replicas.
    private static func watched(_ client: RedisClient, _ name: String) async throws -> [Diagnosis.Finding] {
        let masters = try await client.masters()
        var findings: [Diagnosis.Finding] = []
        for endpoint in try await client.servers() {
            // One that has gone silent since its Sentinels reached it hides no other.
            do {
                findings += try await Self.server(endpoint, client, mayFollow: true)
            } catch {
                let detail = (error as? RedisError)?.message ?? "\(error)"
                let verdict: Diagnosis.Verdict = masters.contains(endpoint) ? .fail : .warn
                findings.append(.init(verdict, .connection, "\(endpoint)", detail))
            }
        }
        return findings + Diagnosis.unreachedReplicas(client.topology.failedServers, name)
    }

    /// Checks each node of a cluster that answers, and all of them together.
    private static func cluster(_ client: RedisClient) async -> [Diagnosis.Finding] {
        do {
            let survey = try await ClusterSurvey(client)
            var findings: [Diagnosis.Finding] = []
            for member in survey.members where member.answer != nil {
                // One that has gone silent since then hides no other.
                do {
                    findings += try await Self.server(member.node.endpoint, client, mayFollow: true)
                } catch {
                    let detail = (error as? RedisError)?.message ?? "\(error)"
                    findings.append(.init(.fail, .connection, member.place, detail))
                }
            }
            let meta = try? await ApusMeta.read(from: client)
            let version = try Installation.library().version
            return findings + Diagnosis.cluster(survey, keyspace: meta?.keyspace, functions: version)
        } catch {
            return [.init(.fail, .connection, client.configuration.places, error.message)]
        }
    }

    private static func server(
        _ endpoint: RedisEndpoint,
        _ client: RedisClient,
        mayFollow: Bool,
    ) async throws -> [Diagnosis.Finding] {
        _ = try await client.send(RedisCommand("PING"), to: endpoint)
        let facts: RedisServerFacts
        do throws(RedisError) {
            facts = try await RedisServerFacts(of: endpoint, client)
        } catch {
            guard error.code == .noPermission else { throw error }
            let cure = "Log in as a user who may use TIME, INFO and CONFIG GET: --redis redis://USER:PASSWORD@HOST"
            return [
                .init(.warn, .connection, "\(endpoint)", "it answers, but refuses this user's commands", cure: cure)
            ]
        }
        let time = "\(NumberText.decimal(Double(facts.roundTripMicroseconds) / 1_000, 2)) ms"
        return [.init(.ok, .connection, "\(endpoint)", "answers in \(time)")]
            + Diagnosis.redis(facts, at: "\(endpoint)", mayFollow: mayFollow)
    }

    /// Checks Apus in Redis, and the credentials, whose tokens it shares.
    private func installation(_ client: RedisClient, _ check: ConfigurationCheck?) async -> [Diagnosis.Finding] {
        let installation: Installation
        do throws(RedisError) {
            installation = try await Installation(client, clock: SystemClock())
        } catch {
            return [.init(.fail, .installation, error.message)]
        }
        let keyspace = installation.keyspace
        let version = (try? Installation.library().version).map { "\($0)" } ?? ""
        let sizes =
            NumberText.counted(keyspace.queueShards, "queue shard", "queue shards") + ", "
            + NumberText.counted(keyspace.devicePartitions, "device partition", "device partitions")
        var found = [Diagnosis.Finding(.ok, .installation, "\(sizes), functions apus2 \(version) or later")]
        if installation.isMetaLost {
            let detail = "\(ApusMeta.key) is lost: the sizes are those of its copies"
            found.append(
                .init(.warn, .installation, detail, cure: "Run apus init: it writes back what the copies know")
            )
        }
        found += await Self.work(installation)
        if let check, check.dispatcher == nil {
            let detail = "they are checked once the dispatcher's configuration has no mistake"
            return found + [.init(.warn, .credential, detail)]
        }
        guard let apps = check?.dispatcher?.common.apps, !apps.isEmpty else { return found }
        do {
            let report = try await CredentialReport.make(apps, of: installation, asksProviders: self.asksOthers)
            return found + report.findings.flatMap(Self.credential)
        } catch {
            return found + [.init(.fail, .credential, "they could not be checked: \(error)")]
        }
    }

    /// Checks the services, the routes, and what waits in the streams for them.
    private static func work(_ installation: Installation) async -> [Diagnosis.Finding] {
        let reach = await Reachability(of: installation.streams)
        let backlog: Result<[StreamBacklog.Row], any Error>
        // When they cannot be read, both that need them say why.
        let known = try? await InstallationCopies(installation.client).routes(of: installation.streams)
        do {
            backlog = .success(try await StreamBacklog(installation.streams, within: reach).rows(among: known))
        } catch {
            backlog = .failure(error)
        }
        return Diagnosis.silence(reach)
            + (await Self.services(installation, reach, beside: (try? backlog.get()) ?? []))
            + (await Self.routes(installation, reach, known)) + (await Self.streams(installation, reach, backlog))
    }

    private static func services(
        _ installation: Installation,
        _ reach: Reachability,
        beside backlog: [StreamBacklog.Row],
    ) async -> [Diagnosis.Finding] {
        guard reach.has(.services) else { return [] }
        do {
            return try await ServiceReport(installation.streams).findings(beside: backlog)
        } catch {
            return [.init(.warn, .services, "they could not be listed: \(error)")]
        }
    }

    private static func routes(
        _ installation: Installation,
        _ reach: Reachability,
        _ known: [NumberedRoute]?,
    ) async -> [Diagnosis.Finding] {
        do {
            let report = RouteControlReport(installation.streams, within: reach)
            return Diagnosis.routes(try await report.rows(among: known))
        } catch {
            return [.init(.warn, .routes, "their state could not be read: \(error)")]
        }
    }

    private static func streams(
        _ installation: Installation,
        _ reach: Reachability,
        _ backlog: Result<[StreamBacklog.Row], any Error>,
    ) async -> [Diagnosis.Finding] {
        do {
            let rows = try backlog.get()
            let dead = rows.filter { $0.name == StreamBacklog.deadLetters }.reduce(0) { $0 + $1.backlog }
            let readings = try await StreamReading.all(in: installation.streams, within: reach)
            return Diagnosis.streams(readings) + Diagnosis.overdue(rows) + Diagnosis.deadLetters(dead)
                + Diagnosis.held(rows) + (try await WebhookBacklog(installation.streams, within: reach)).findings
        } catch {
            return [.init(.warn, .streams, "they could not be checked: \(error)")]
        }
    }

    private static func credential(_ finding: CredentialCheck.Finding) -> [Diagnosis.Finding] {
        let doubt = finding.doubt.map {
            Diagnosis.Finding(.warn, .credential, finding.route.description, $0)
        }
        return [Self.verdict(on: finding)] + (doubt.map { [$0] } ?? [])
    }

    private static func verdict(on finding: CredentialCheck.Finding) -> Diagnosis.Finding {
        let route = finding.route.description
        let left = finding.expiresAt.map { $0.milliseconds(since: SystemClock().now()) }
        switch finding.verdict {
        case .refused(let reason):
            return .init(
                .fail,
                .credential,
                route,
                "\(finding.credential.isEmpty ? "" : "\(finding.credential): ")\(reason)",
                cure: finding.cure ?? "Replace the file: running dispatchers read it by themselves"
            )
        case .unanswered(let reason):
            return .init(
                .fail,
                .credential,
                route,
                "the provider could not be asked: \(reason)",
                cure: finding.cure
                    ?? "Allow connections from this machine to the provider; --offline checks files only"
            )
        case .taken, .usable, .unasked:
            let words = "\(finding.credential), \(Self.words(finding.verdict))"
            guard let left, left > Self.tokenMillisecondsMax, left < Self.certificateWarnMilliseconds else {
                return .init(.ok, .credential, route, words)
            }
            return .init(
                .warn,
                .credential,
                route,
                "\(words), valid for another \(NumberText.age(milliseconds: left))",
                cure: "Create a new one in the provider's console; the old one stays valid beside it"
            )
        }
    }

    private static func words(_ verdict: CredentialCheck.Finding.Verdict) -> String {
        switch verdict {
        case .taken: "the provider accepts it"
        case .unasked: "can be read; push services cannot be asked without a subscription"
        case .usable, .refused, .unanswered: "can be read"
        }
    }

    // MARK: Endpoints

    /// Checks that the endpoints of webhooks and traces accept connections; providers are checked with their credentials.
    private static func endpoints(of check: ConfigurationCheck) async -> [Diagnosis.Finding] {
        var addresses: [(what: String, address: WebAddress)] = []
        if let webhook = check.feedback?.own.webhook { addresses.append(("feedback.webhook", webhook.address)) }
        if let endpoint = check.common?.tracing.endpoint, let address = WebAddress(endpoint) {
            addresses.append(("tracing.endpoint", address))
        }
        var findings: [Diagnosis.Finding] = []
        for (what, address) in addresses {
            let place = "\(address.host):\(address.port)"
            do {
                let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connectTimeout(Self.connectDurationMax)
                    .connect(host: address.host, port: address.port)
                    .get()
                try? await channel.close().get()
                findings.append(.init(.ok, .endpoint, what, "\(place) accepts connections"))
            } catch {
                let cure = "Start it, or allow connections to it from this machine"
                findings.append(.init(.fail, .endpoint, what, "\(place) accepts no connection", cure: cure))
            }
        }
        return findings
    }
}
