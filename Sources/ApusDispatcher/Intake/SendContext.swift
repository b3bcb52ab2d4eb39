internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusRedis
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import Synchronization

/// The state of a send that is the same for all its work units: its command is decoded once, and rendered once per
/// route and variant.
final class SendContext: Sendable {
    /// The send's id in its app.
    let send: String
    /// The publisher's command.
    let command: SendCommand
    /// The hash tag of the keys that hold the send's state.
    let tag: HashTag
    /// The first eight bytes of a hash of the app and the id. It is part of every request's id.
    let digest: UInt64
    /// A number by which sends that use one id are told apart.
    let idUse: UInt32
    /// The time at which the send expires; nil if it never does.
    let expiresAt: UnixMilliseconds?
    /// The condition that each recipient's record must still meet.
    let predicate: Predicate
    /// True when the target names a topic that has never had a member. The topic may get a number later, so the
    /// predicate is resolved again for every table.
    let namesUnknownTopic: Bool
    /// The trace context of dispatching the send, a child of its publisher's; nil if the publisher sent none.
    let trace: TraceContext?
    /// The Live Activity token that the send goes to; nil for the device's own token, or one that the command names.
    let activity: ActivityAddress?
    /// The kind of the notification, which decides which tokens can receive it.
    let kind: Notification.Kind
    /// The provider under which outcomes are counted that belong to no route.
    let anyProvider: Provider
    /// A route of the app's, for outcomes that belong to no route; nil: the configuration has none.
    let anyRoute: RouteNumber?
    /// The contexts of the app's routes.
    let routes: [RouteNumber: RouteContext]
    /// The providers for which the notification is too large.
    private let tooLargeFor: Set<Provider>
    /// The routes that have a number and are not in the configuration.
    private let others: [Route: RouteNumber]

    /// - Parameters:
    ///   - unneeded: providers that no recipient has and that nothing is rendered for.
    ///   - anyProvider: a provider of the app, for a send that no route leads to.
    ///   - anyRoute: a route of the app, likewise; nil: the least of `routes`.
    ///   - others: routes that have a number and are not in the configuration.
    init(
        send: String,
        command: SendCommand,
        tag: HashTag,
        digest: UInt64,
        expiresAt: UnixMilliseconds?,
        predicate: Predicate,
        namesUnknownTopic: Bool = false,
        routes: [RouteNumber: RouteContext],
        tooLargeFor: Set<Provider> = [],
        unneeded: Set<Provider> = [],
        anyProvider: Provider,
        anyRoute: RouteNumber? = nil,
        others: [Route: RouteNumber] = [:],
    ) {
        self.trace = Self.trace(of: command, send: send)
        self.activity = ActivityAddress(command)
        self.kind = command.notification.kind
        let holder = command.target.holder
        self.send = send
        self.command = command
        self.tag = tag
        self.digest = digest
        self.idUse = SendIdentity.idUse(of: command)
        self.expiresAt = expiresAt
        self.predicate = predicate
        self.namesUnknownTopic = namesUnknownTopic
        let providers = unneeded.union(routes.values.map(\.route.provider))
        self.anyProvider = holder ?? providers.min() ?? anyProvider
        self.anyRoute = anyRoute ?? routes.keys.min()
        self.routes = routes
        self.tooLargeFor = tooLargeFor
        self.others = others
    }

    /// The send, by its app and its id.
    var key: SendKey { SendKey(app: self.command.app, id: self.send) }

    /// The digest by which a badge remembers that the send was counted.
    var badgeDigest: UInt64 { self.digest ^ UInt64(self.idUse) << 32 }

    /// Returns the approximate size: the command and the bodies rendered for each route.
    func byteCount() throws -> Int {
        let messages = self.routes.values.flatMap(\.messages.variants)
        return try self.command.encode().count + messages.reduce(0) { $0 + $1.payloadBytes }
    }

    /// Returns the trace context of dispatching a send. It is the same whenever and wherever the send is dispatched.
    static func trace(of command: SendCommand, send: String) -> TraceContext? {
        TraceContext(traceparent: command.traceparent)?.child("dispatch", of: send)
    }

    /// True when outcomes are reported for each recipient, in addition to the counts.
    var listsRecipients: Bool { self.command.receiptLevel == .recipients || self.command.namesRecipients }

    /// The publisher's `tracestate`; empty without a trace.
    var tracestate: String { self.trace == nil ? "" : self.command.tracestate }

    /// Creates an empty batch of the send's outcomes on a route, with what receipts and traces need.
    func makeBatch(on route: RouteNumber, of provider: Provider) -> OutcomeBatch {
        self.command.makeBatch(of: self.send, use: self.idUse, self.trace, on: route, of: provider)
    }

    /// Returns the context of a route; nil if there is none.
    func context(of route: Route) -> RouteContext? { self.routes.values.first { $0.route == route } }

    /// Returns how a provider's recipients end for whom no message was rendered.
    func ending(unrenderedFor provider: Provider) -> (outcome: Outcome, reason: Reason) {
        self.tooLargeFor.contains(provider) ? (.rejected, .payload) : (.failed, .noRoute)
    }

    /// Returns the number of a route: of one that the message is rendered for, or that the configuration does not have.
    func number(of route: Route) -> RouteNumber? { self.context(of: route)?.number ?? self.others[route] }

    /// Returns the context of the same app and provider in the environment that the store has its devices in.
    func storedRoute(of route: RouteNumber, in environment: ProviderEnvironment) -> RouteContext? {
        guard let other = self.routes[route]?.route else { return nil }
        return self.context(of: Route(app: other.app, provider: other.provider, environment: environment))
    }
}

/// The rendered messages of a send on one route, and what is needed to send them.
final class RouteContext: Sendable {
    let route: Route
    /// The route's realm in the store.
    let realm: Realm
    let number: RouteNumber
    /// The rendered messages: the notification's own text first, then its variants.
    let messages: RenderedNotification<PreparedMessage>
    /// The kinds of device tokens that can receive the messages.
    let tokenKinds: TokenKinds
    /// The part of the route that the provider permits or refuses by itself; empty when there is none.
    let subroute: String
    /// True when the messages go to the route's broadcast address.
    let isBroadcast: Bool
    /// True when the provider names the field of a message that it rejects for every recipient.
    let namesRejectedFields: Bool
    /// True once the provider has accepted the message for a recipient of this process.
    let wasAccepted = Atomic(false)
    /// True when each device's badge must be counted before sending.
    let needsBadges: Bool
    /// True when the messages are made for each device with keys of its own.
    let needsKeys: Bool
    /// The provider's rules for retries.
    let retryRules: RetryRules
    /// The messages that test tokens; nil when the provider has no way to.
    let tokenProbe: TokenProbe?
    /// The same messages addressed to installation ids, rendered when the first such device comes along.
    private let installations = Mutex<RenderedNotification<PreparedMessage>?>(nil)
    private let renderForInstallations: @Sendable () -> RenderedNotification<PreparedMessage>

    init(route: Route, number: RouteNumber, _ rendered: RenderedRoute, retryRules: RetryRules) {
        let messages = rendered.messages
        self.route = route
        self.realm = Realm(route)
        self.number = number
        self.messages = messages
        self.tokenKinds = rendered.tokenKinds
        self.subroute = rendered.subroute
        self.isBroadcast = rendered.isBroadcast
        self.namesRejectedFields = rendered.namesRejectedFields
        self.retryRules = retryRules
        self.tokenProbe = rendered.tokenProbe
        self.renderForInstallations = rendered.forInstallations ?? { messages }
        self.needsBadges = messages.variants.contains { $0.needsBadge }
        self.needsKeys = messages.base.needsKeys
    }

    /// Returns the message that tests a recipient's token. Traps on a route that cannot test tokens.
    func probe(isInstallation: Bool) -> PreparedMessage {
        guard let tokenProbe else { preconditionFailure("a probe on a route that has none") }
        return tokenProbe.message(isInstallation: isInstallation)
    }

    /// The messages for devices that are registered with an installation id.
    var forInstallations: RenderedNotification<PreparedMessage> {
        self.installations.withLock { made in
            let messages = made ?? self.renderForInstallations()
            made = messages
            return messages
        }
    }
}

extension SendCommand {
    /// True when the target is a short list of devices or users. Each recipient's outcome is then written to its
    /// history.
    var namesRecipients: Bool {
        switch self.target {
        case .devices(let ids), .users(let ids): ids.count <= Limits.directRecipientsMax
        default: false
        }
    }

    /// Creates an empty batch of outcomes on a route, with what receipts and traces need.
    ///
    /// - Parameters:
    ///   - send: the id of the command's send in its app.
    ///   - use: the number by which sends that use this id are told apart.
    ///   - trace: the trace context of dispatching the send.
    func makeBatch(
        of send: String,
        use: UInt32,
        _ trace: TraceContext?,
        on route: RouteNumber,
        of provider: Provider,
    ) -> OutcomeBatch {
        var batch = OutcomeBatch(send: send, app: self.app, route: route, provider: provider)
        batch.replyTo = self.replyTo
        batch.receiptLevel = self.receiptLevel
        batch.namesRecipients = self.namesRecipients
        batch.traceparent = trace?.traceparent ?? ""
        batch.tracestate = trace == nil ? "" : self.tracestate
        batch.publishedAtNanoseconds = self.publishedAtNanoseconds
        batch.idUse = use
        return batch
    }
}

extension DispatcherInstruments {
    /// Records the sizes of a route's messages.
    func recordSizes(of context: RouteContext) {
        let histogram = self.metrics.payloadBytes[context.route.provider]
        for message in context.messages.variants { self.shared.observe(Int64(message.payloadBytes), in: histogram) }
    }

    /// Records the span of dispatching a send, or of a step within it.
    ///
    /// - Parameters:
    ///   - step: the name of the step; nil for dispatching itself, from the mailbox on.
    ///   - send: the send's id in its app.
    func recordSpan(
        _ name: String,
        step: String? = nil,
        of command: SendCommand,
        send: String,
        from start: Int64,
        to end: Int64,
    ) {
        guard let spans, let trace = SendContext.trace(of: command, send: send), trace.isSampled else { return }
        let publisher = TraceContext(traceparent: command.traceparent)
        spans.record(
            TraceSpan(
                name,
                step == nil ? .consumer : .internal,
                step.map { trace.child($0, of: send) } ?? trace,
                parent: step == nil ? publisher?.span : trace.span,
                tracestate: command.tracestate,
                from: start,
                to: end,
                attributes: ["apus.send": .text(send), "apus.app": .text(command.app)],
            )
        )
    }
}
