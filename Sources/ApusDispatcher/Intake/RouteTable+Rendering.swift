internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// Writes commands out for the routes of their app.
extension RouteTable {
    /// The routes whose plans find a send's recipients, in order; never none: somebody must count those whom no route leads to.
    func planned(_ context: SendContext) -> [RouteNumber] {
        guard context.routes.isEmpty else { return context.routes.keys.sorted() }
        return context.anyRoute.map { [$0] } ?? []
    }

    /// Writes a notification out for every route of an app; the first rule it breaks on any of them is the answer. A send that was
    /// accepted before breaks none by the configuration having lost routes since: for those nothing is written out.
    func render(
        _ command: SendCommand,
        app: AppID,
        context: RenderContext,
    ) throws(Problem) -> [RouteNumber: RouteContext] {
        let entries = self.apps[app] ?? []
        if context.isAccepted, entries.isEmpty { return [:] }
        guard self.apps[app] != nil else {
            throw Problem(code: "unknown_app", field: "app", detail: "there is no app \"\(app)\" in the configuration")
        }
        guard !entries.isEmpty else {
            throw Problem(code: "no_route", field: "app", detail: "the app has no provider in the configuration")
        }
        var contexts: [RouteNumber: RouteContext] = [:]
        // What the routes of one provider are told alike, once it is written.
        var shared: [Provider: any Sendable] = [:]
        var unsupported: Problem?
        for entry in entries where Self.mayReach(command.target, entry.route) {
            do throws(Problem) {
                let rendered = try entry.way.render(command, context, sharing: &shared[entry.route.provider])
                contexts[entry.number] = RouteContext(entry, rendered)
            } catch {
                // What one provider knows nothing of may still be for the others.
                guard error.code == RuleBreach.unsupported.rawValue else { throw error }
                unsupported = error
            }
        }
        if contexts.isEmpty, !context.isAccepted, let unsupported { throw unsupported }
        return contexts
    }

    /// Whether a target can have recipients on a route: what cannot be reached need not be written out.
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
    /// What a send says on a route of the table.
    convenience init(_ entry: RouteTable.Entry, _ rendered: RenderedRoute) {
        self.init(route: entry.route, number: entry.number, rendered, retryRules: entry.retryRules)
    }
}
