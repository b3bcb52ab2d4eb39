package import ApusCore
package import ApusInstallation
package import ApusProviders
package import ApusService
internal import ApusStreams
package import Logging
package import NIOCore

/// Checks the credentials of a configuration as a dispatcher would use them: it reads each file, signs, and asks the
/// provider.
package struct CredentialCheck: Sendable {
    /// The result for one route.
    package struct Finding: Hashable, Sendable {
        /// The usability of a credential.
        package enum Verdict: Hashable, Sendable {
            /// The provider accepts it.
            case taken
            /// It can be used; the provider was not asked.
            case usable
            /// It can be used; the provider cannot be asked without a device.
            case unasked
            /// It cannot be used, or the provider refuses it, for the given reason.
            case refused(String)
            /// The provider could not be asked.
            case unanswered(String)
        }

        /// The route that uses the credential.
        package var route: Route
        /// The name of the key or account; empty when its file cannot be read.
        package var credential: String
        /// The expiry of the token or certificate that is presented to the provider; nil if none was made.
        package var expiresAt: UnixMilliseconds?
        /// The usability of the credential.
        package var verdict: Verdict
        /// The advice when it is refused or the provider could not be asked; nil when there is none.
        package var cure: String?
        /// A warning about a configuration that is allowed and probably wrong; nil when there is none.
        package var doubt: String?
    }

    private let apps: [AppID: AppSettings]
    private let routes: RouteTable
    private let streams: SendStreams
    private let factory: GatewayFactory
    private let clock: any WallClock
    private let eventLoop: any EventLoop

    /// Creates a check of the given apps.
    ///
    /// It uses the provider tokens that the installation's dispatchers share, if there are any, so that a check does
    /// not make a key sign more tokens than its provider allows.
    package init(
        _ apps: [AppID: AppSettings],
        of installation: Installation,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        providers: ProviderList = .installed,
    ) async throws {
        self.apps = apps
        self.streams = installation.streams
        self.routes = try await RouteTable(
            apps,
            providers: providers,
            streams: installation.streams,
            copies: InstallationCopies(installation.client),
            logger: logger,
        )
        self.factory = GatewayFactory(
            providers: providers,
            tools: GatewayTools(
                tokens: SharedTokens(client: installation.client),
                clock: clock,
                eventLoopGroup: eventLoopGroup,
                logger: logger,
            ),
        )
        self.clock = clock
        self.eventLoop = eventLoopGroup.next()
    }

    /// Checks all routes, and returns the findings sorted by route name. Providers are asked at once, because one that does not answer takes
    /// its time.
    package func run(asksProviders: Bool) async -> [Finding] {
        await withTaskGroup { group in
            // Routes with the same key share its token, as those of a dispatcher do: each finds the ones before it.
            for entry in self.routes.entries {
                var finding = Finding(route: entry.route, credential: "", verdict: .usable)
                let configuration: GatewayConfiguration?
                do {
                    configuration = try self.configuration(of: entry, &finding)
                } catch let error as SettingsError {
                    finding.verdict = .refused(error.sentence)
                    configuration = nil
                } catch {
                    finding.verdict = .unanswered("\(error)")
                    configuration = nil
                }
                group.addTask { [finding] in
                    guard let configuration, asksProviders, finding.verdict == .usable else { return finding }
                    return await self.asked(entry, configuration, finding)
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
                .sorted { $0.route.description < $1.route.description }
        }
    }

    private func configuration(
        of entry: RouteTable.Entry,
        _ finding: inout Finding,
    ) throws -> GatewayConfiguration? {
        guard let source = try self.factory.source(of: entry.route, self.apps) else { return nil }
        finding.credential = source.credentialName
        finding.doubt = source.doubt
        let configuration = try self.factory.configuration(source, of: entry.route)
        self.factory.adopt(configuration, for: entry)
        finding.expiresAt = configuration.credential.expiresAt
        if let expiresAt = finding.expiresAt, expiresAt <= self.clock.now() {
            finding.verdict = .refused("it has expired, by this machine's clock")
        }
        return configuration
    }

    private func asked(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
        _ finding: Finding,
    ) async -> Finding {
        var finding = finding
        do {
            finding.verdict =
                switch try await self.factory.probe(entry, configuration, on: self.eventLoop) {
                case .taken: .taken
                case .refused(let word): .refused(word)
                case .unanswered(let word): .unanswered(word)
                case .unasked: try await self.verdictOfDispatchers(entry, configuration)
                }
            switch finding.verdict {
            case .refused(let word), .unanswered(let word): finding.cure = configuration.source.cure(of: word)
            case .taken, .usable, .unasked: break
            }
        } catch {
            finding.verdict = .unanswered("\(error)")
        }
        finding.expiresAt = configuration.credential.expiresAt
        return finding
    }

    /// Returns that the credential is refused if the dispatchers' route is stopped for it.
    private func verdictOfDispatchers(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
    ) async throws -> Finding.Verdict {
        let state = try await self.streams.routes.state(of: entry.number)
        let fingerprint = configuration.source.configurationFingerprint
        guard let fault = state.fault(of: fingerprint), state.rejectedConfigurations[fingerprint] == .credential else {
            return .unasked
        }
        // The word of the route's first fault may be about another configuration, and another matter.
        return .refused(state.stop == .byFault(fault) ? fault.word : "the provider refuses its credential")
    }
}
