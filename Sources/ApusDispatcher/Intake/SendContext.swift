internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import Synchronization

/// A send as a process knows it while it works on it: decoded once, rendered once per route and variant.
final class SendContext: Sendable {
    /// The send's id.
    let send: String
    /// What the publisher asked for.
    let command: SendCommand
    /// Where its state lives.
    let tag: HashTag
    /// First eight bytes of a hash of the id: part of every request's id.
    let digest: UInt64
    /// When it loses its worth; nil: never.
    let expiresAt: UnixMilliseconds?
    /// Whom it is for, as records are checked; nil: nothing to check (addresses, devices).
    let predicate: Predicate
    /// The step of dispatching it, in its publisher's trace; nil: it has none.
    let trace: TraceContext?
    /// Which token of each device it goes to; nil: the device's own, or one that the command names.
    let activity: ActivityAddress?
    /// What it is: which tokens take it.
    let kind: Notification.Kind
    /// A provider of the app's, for what belongs to none.
    let anyProvider: Provider
    /// A route of the app's, likewise; nil: the configuration has none.
    let anyRoute: RouteNumber?
    /// The routes of the app, rendered.
    let routes: [RouteNumber: RouteContext]
    /// Routes that have a number and are not in the configuration.
    private let others: [Route: RouteNumber]

    /// What a record must still fulfil when its turn comes.
    enum Predicate: Sendable {
        /// To exist.
        case exists
        /// To fulfil an expression over topics.
        case topics(TopicExpression)
        /// To fulfil an expression over topics and attributes.
        case audience(Audience)
        /// To belong to one of these users.
        case users([[UInt8]])
    }

    /// - Parameters:
    ///   - anyProvider: of the app, for a send that no route leads to.
    ///   - anyRoute: likewise; nil: the least of `routes`.
    ///   - others: routes that have a number and are not in the configuration.
    init(
        send: String,
        command: SendCommand,
        tag: HashTag,
        digest: UInt64,
        expiresAt: UnixMilliseconds?,
        predicate: Predicate,
        routes: [RouteNumber: RouteContext],
        anyProvider: Provider,
        anyRoute: RouteNumber? = nil,
        others: [Route: RouteNumber] = [:],
    ) {
        self.send = send
        self.command = command
        self.tag = tag
        self.digest = digest
        self.expiresAt = expiresAt
        self.predicate = predicate
        self.trace = Self.trace(of: command, send: send)
        self.activity = ActivityAddress(command)
        self.kind = command.notification.kind
        self.anyProvider = command.target.holder ?? routes.values.map(\.route.provider).min() ?? anyProvider
        self.anyRoute = anyRoute ?? routes.keys.min()
        self.routes = routes
        self.others = others
    }

    /// What it takes, roughly: the command, and what was written out for each route.
    func byteCount() throws -> Int {
        let messages = self.routes.values.flatMap(\.messages.variants)
        return try self.command.encode().count + messages.reduce(0) { $0 + $1.payloadBytes }
    }

    /// The step of dispatching a send; the same whenever and wherever it is dispatched.
    static func trace(of command: SendCommand, send: String) -> TraceContext? {
        TraceContext(traceparent: command.traceparent)?.child("dispatch", of: send)
    }

    /// Whether it names a few devices or users, so that what becomes of each goes into its history.
    var namesRecipients: Bool {
        switch self.command.target {
        case .devices(let ids), .users(let ids): ids.count <= Limits.directRecipientsMax
        default: false
        }
    }

    /// Whether outcomes are told one by one, beside their counts.
    var listsRecipients: Bool { self.command.receiptLevel == .recipients || self.namesRecipients }

    /// What other systems carry along with the trace; nothing without one.
    var tracestate: String { self.trace == nil ? "" : self.command.tracestate }

    /// The context of a route by the route itself.
    func context(of route: Route) -> RouteContext? { self.routes.values.first { $0.route == route } }

    /// The number of a route by the route itself: of one that the message is written out for, or that the configuration does not have.
    func number(of route: Route) -> RouteNumber? { self.context(of: route)?.number ?? self.others[route] }

    /// The same way out in another environment.
    func home(of route: RouteNumber, in environment: ProviderEnvironment) -> RouteContext? {
        guard let other = self.routes[route]?.route else { return nil }
        return self.context(of: Route(app: other.app, provider: other.provider, environment: environment))
    }
}

/// What a send says on one route: each variant ready for the wire.
final class RouteContext: Sendable {
    let route: Route
    /// The route's realm in the store.
    let realm: Realm
    let number: RouteNumber
    /// The notification's own words first, then the variants.
    let messages: RenderedNotification<PreparedMessage>
    /// Which devices' own tokens take it.
    let tokenKinds: TokenKinds
    /// Whether it goes where the route's broadcasts go.
    let isBroadcast: Bool
    /// Whether each device's badge must be counted first.
    let needsBadges: Bool
    /// How the provider wants to be tried again.
    let retryRules: RetryRules
    /// With what its tokens can be tried; nil: the provider has no way to.
    let tokenProbe: TokenProbe?
    /// The same messages, addressed to installation ids: made when the first such device comes along.
    private let installations = Mutex<RenderedNotification<PreparedMessage>?>(nil)
    private let renderForInstallations: @Sendable () -> RenderedNotification<PreparedMessage>

    init(route: Route, number: RouteNumber, _ rendered: RenderedRoute, retryRules: RetryRules) {
        let messages = rendered.messages
        self.route = route
        self.realm = Realm(route)
        self.number = number
        self.messages = messages
        self.tokenKinds = rendered.tokenKinds
        self.isBroadcast = rendered.isBroadcast
        self.retryRules = retryRules
        self.tokenProbe = rendered.tokenProbe
        self.renderForInstallations = rendered.forInstallations ?? { messages }
        self.needsBadges = messages.variants.contains { $0.needsBadge }
    }

    /// With what a recipient's token is tried. Traps on a route that has nothing for it.
    func probe(isInstallation: Bool) -> PreparedMessage {
        guard let tokenProbe else { preconditionFailure("a probe on a route that has none") }
        return tokenProbe.message(isInstallation: isInstallation)
    }

    /// The messages for those who are known by an installation id.
    var forInstallations: RenderedNotification<PreparedMessage> {
        self.installations.withLock { made in
            let messages = made ?? self.renderForInstallations()
            made = messages
            return messages
        }
    }
}

extension DispatcherInstruments {
    /// Records how large the messages of a route are.
    func recordSizes(of context: RouteContext) {
        let histogram = self.metrics.payloadBytes[context.route.provider]
        for message in context.messages.variants { self.shared.observe(Int64(message.payloadBytes), in: histogram) }
    }

    /// Records the span of a step of dispatching a send: the one that its trace is named by, or one that follows it.
    ///
    /// - Parameter step: nil: dispatching itself, from the mailbox on.
    func recordSpan(_ name: String, step: String? = nil, of context: SendContext, from start: Int64, to end: Int64) {
        guard let spans, let trace = context.trace, trace.isSampled else { return }
        let publisher = TraceContext(traceparent: context.command.traceparent)
        spans.record(
            TraceSpan(
                name,
                step == nil ? .consumer : .internal,
                step.map { trace.child($0, of: context.send) } ?? trace,
                parent: step == nil ? publisher?.span : trace.span,
                tracestate: context.tracestate,
                from: start,
                to: end,
                attributes: ["apus.send": .text(context.send), "apus.app": .text(context.command.app)],
            )
        )
    }
}
