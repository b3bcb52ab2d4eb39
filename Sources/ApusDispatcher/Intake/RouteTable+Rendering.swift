internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// Tells for which providers a command is needed.
struct ReachedProviders: Sendable {
    /// The providers of its recipients.
    let providers: Set<Provider>
    /// The size of the packed command.
    let byteCount: Int
}

/// Holds what a command was rendered to.
struct RenderedRoutes {
    /// The routes that it can be sent on.
    var contexts: [RouteNumber: RouteContext] = [:]
    /// The providers for which the notification is too large: their recipients fail for it.
    var tooLargeFor: Set<Provider> = []
    /// The providers for which it was not rendered, because they have no recipient and would certainly accept it.
    var unneeded: Set<Provider> = []
}

/// Renders commands for the routes of their app.
extension RouteTable {
    /// Returns the routes whose plans find a send's recipients, sorted. There is at least one if the app has a route,
    /// because a plan must also count the recipients that no route leads to.
    func planned(_ context: SendContext) -> [RouteNumber] {
        guard context.routes.isEmpty else { return context.routes.keys.sorted() }
        return context.anyRoute.map { [$0] } ?? []
    }

    /// Renders a notification for every route of an app. Throws the first rule that it breaks on any of them.
    ///
    /// A notification that one provider does not support, or that is too large for it, may suit the others: then that provider's
    /// recipients alone fail, and the command is refused when no provider is left. A send that was accepted before breaks no rule because
    /// the configuration has lost routes since: for those nothing is rendered.
    ///
    /// - Parameter reached: the providers that have recipients; nil: all may have some.
    func render(
        _ command: SendCommand,
        app: AppID,
        context: RenderContext,
        reached: ReachedProviders? = nil,
    ) throws(Problem) -> RenderedRoutes {
        let entries = self.apps[app] ?? []
        if context.isAccepted, entries.isEmpty { return RenderedRoutes() }
        guard self.apps[app] != nil else {
            throw Problem(code: "unknown_app", field: "app", detail: "there is no app \"\(app)\" in the configuration")
        }
        guard !entries.isEmpty else {
            throw Problem(code: "no_route", field: "app", detail: "the app has no provider in the configuration")
        }
        var rendered = RenderedRoutes()
        // The parts that the routes of one provider share, once they are rendered.
        var shared: [Provider: any Sendable] = [:]
        var unsuited: Problem?
        for entry in entries where Self.mayReach(command.target, entry.route) {
            if let reached, !reached.providers.contains(entry.route.provider),
                entry.providerRoute.certainlyAccepts(command, byteCount: reached.byteCount)
            {
                rendered.unneeded.insert(entry.route.provider)
                continue
            }
            do throws(Problem) {
                let route = try entry.providerRoute.render(command, context, sharing: &shared[entry.route.provider])
                rendered.contexts[entry.number] = RouteContext(entry, route)
            } catch {
                switch RuleBreach(rawValue: error.code) {
                case .payloadTooLarge:
                    rendered.tooLargeFor.insert(entry.route.provider)
                    unsuited = error
                // The size is the reason that is told: a publisher can shorten a text.
                case .unsupported: unsuited = unsuited ?? error
                // A later rule, or a certificate that serves fewer topics, must not end the accepted send for the other providers.
                default:
                    guard context.isAccepted else { throw error }
                    unsuited = unsuited ?? error
                }
            }
        }
        if rendered.contexts.isEmpty, !context.isAccepted, let unsuited { throw unsuited }
        return rendered
    }

    /// Returns true if a target can have recipients on a route. Other routes need no rendering.
    private static func mayReach(_ target: Target, _ route: Route) -> Bool {
        if let holder = target.holder {
            return route.provider == holder && route.environment == target.holderEnvironment ?? route.environment
        }
        switch target {
        case .addresses(let addresses):
            return addresses.contains { $0.provider == route.provider && $0.environment == route.environment }
        case .everyone(let providers): return providers.isEmpty || providers.contains(route.provider)
        default: return true
        }
    }
}

extension RouteContext {
    /// Creates the context of a send on a route of the table.
    convenience init(_ entry: RouteTable.Entry, _ rendered: RenderedRoute) {
        self.init(route: entry.route, number: entry.number, rendered, retryRules: entry.retryRules)
    }
}
