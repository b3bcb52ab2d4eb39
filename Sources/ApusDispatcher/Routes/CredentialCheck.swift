package import ApusCore
package import ApusInstallation
internal import ApusProviders
package import ApusService
package import Logging
package import NIOCore

/// Looks at the credentials of a configuration as a dispatcher would: reads each file, signs, and asks the provider.
package struct CredentialCheck: Sendable {
    /// What was found on one route.
    package struct Finding: Hashable, Sendable {
        /// How good it is.
        package enum Verdict: Hashable, Sendable {
            /// The provider takes it.
            case taken
            /// It can be used; the provider was not asked.
            case usable
            /// It cannot be used, or the provider does not take it.
            case refused(String)
            /// The provider could not be asked.
            case unanswered(String)
        }

        /// Which way out.
        package var route: Route
        /// Which key or account, in words; empty when its file cannot be read.
        package var credential: String
        /// When what is shown to the provider expires; nil: nothing was made.
        package var expiresAt: UnixMilliseconds?
        /// How good it is.
        package var verdict: Verdict
    }

    private let apps: [AppID: AppSettings]
    private let routes: RouteBook
    private let factory: GatewayFactory
    private let clock: any WallClock
    private let eventLoop: any EventLoop

    /// A check of those apps. Provider tokens are those that the installation's dispatchers share, if there are any: a check must not
    /// make a key sign more of them than Apple allows.
    package init(
        _ apps: [AppID: AppSettings],
        of installation: Installation,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) async throws {
        self.apps = apps
        self.routes = try await RouteBook(apps, streams: installation.streams)
        self.factory = GatewayFactory(
            tokens: SharedTokens(client: installation.client),
            clock: clock,
            eventLoopGroup: eventLoopGroup,
            logger: logger,
        )
        self.clock = clock
        self.eventLoop = eventLoopGroup.next()
    }

    /// All routes, by name.
    package func run(asksProviders: Bool) async -> [Finding] {
        var findings: [Finding] = []
        let entries = self.routes.apps.values.joined().sorted { $0.route.description < $1.route.description }
        for entry in entries {
            var finding = Finding(route: entry.route, credential: "", verdict: .usable)
            do {
                try await self.look(at: entry, asksProviders: asksProviders, &finding)
            } catch let error as SettingsError {
                finding.verdict = .refused(error.issues.map(\.description).joined(separator: "; "))
            } catch {
                finding.verdict = .unanswered("\(error)")
            }
            findings.append(finding)
        }
        return findings
    }

    private func look(
        at entry: RouteBook.Entry,
        asksProviders: Bool,
        _ finding: inout Finding,
    ) async throws {
        guard let settings = self.apps[entry.route.app],
            let ingredients = try GatewayIngredients(entry.route, settings)
        else { return }
        finding.credential = ingredients.credentialName
        let recipe = try self.factory.recipe(ingredients, of: entry.route)
        self.factory.adopt(recipe, for: entry.number)
        finding.expiresAt = recipe.credential.expiresAt
        if let expiresAt = finding.expiresAt, expiresAt <= self.clock.now() {
            finding.verdict = .refused("it has expired")
            return
        }
        guard asksProviders else { return }
        let verdict = try await self.factory.probe(entry, recipe, now: self.clock.now(), on: self.eventLoop)
        finding.expiresAt = recipe.credential.expiresAt
        finding.verdict =
            switch verdict {
            case .taken: .taken
            case .refused(let word): .refused(word)
            case .unanswered(let word): .unanswered(word)
            }
    }
}
