internal import ApusCore
package import ApusTLS

/// One connection to a strict provider: requests in, rulings out, each entered into the ledger.
///
/// Pure but for the ledger and the faults, which all connections share; the time is an argument.
package struct StrictConnection {
    private let world: World
    private let shard: LedgerShard
    /// Which provider's listener this is: `apns`, or `fcm` with the token endpoint beside it.
    private let listener: FaultRoute
    private let number: UInt64
    private var rules: Rules
    private var rulesVersion: UInt64
    private var apns = APNsConnection()
    private var requests: UInt64 = 0
    private var isOpened = false
    private var startedAt: Int64?
    private var saidGoAway = false
    /// Whether something was accepted whose answer does not go out at once: perhaps it never does.
    private var leftWaiting = false
    /// What the last SETTINGS said because of a phase; nil: as ever.
    private var streamsMax: UInt32?

    /// A connection that was just accepted at that listener.
    package init(world: World, shard: LedgerShard, listener: FaultRoute) {
        precondition(listener != .oauth, "the token endpoint stands on FCM's listener")
        self.world = world
        self.shard = shard
        self.listener = listener
        self.number = world.nextConnection()
        self.rulesVersion = world.rulesVersion
        self.rules = world.rules
        shard.countConnection()
    }

    /// The client showed a certificate when it connected: it needs no token to be allowed many streams.
    package mutating func showed(_ certificate: AppleCertificate) {
        self.apns.certificate = certificate
        self.isOpened = true
    }

    /// What is to be done about a request.
    ///
    /// - Parameters:
    ///   - nanoseconds: the time of day, since 1970.
    package mutating func judge(_ request: ProviderRequest, nanoseconds: Int64) -> Ruling {
        self.refreshRules()
        self.requests += 1
        let isTokenEndpoint = self.listener == .fcm && request.path.split(separator: "?").first == "/token"
        let route = isTokenEndpoint ? FaultRoute.oauth : self.listener
        let now = UnixMilliseconds(nanoseconds / 1_000_000)
        let draw = self.world.faults.next(route, path: Array(request.path.utf8).span, now: now)
        let visit = Visit(
            route: route,
            fault: draw.fault,
            retryAfter: draw.retryAfter ?? self.world.faults.plan.retryAfter,
            number: self.number << 32 | self.requests,
            now: now,
            nanoseconds: nanoseconds,
        )
        let goAway = self.goodbye(visit)
        guard goAway?.lastStream ?? .this == .this else {
            // It comes after the last stream: nobody looks at it.
            self.recordUnjudged(request, visit, status: 0)
            var ruling = Ruling(action: .silence)
            ruling.goAway = goAway
            return ruling
        }
        var ruling = self.ruling(request, visit)
        ruling.delayMicroseconds = draw.delayMicroseconds
        ruling.goAway = goAway
        self.noteWaiting(ruling)
        self.announceStreams(&ruling, now)
        return ruling
    }

    /// A connection says goodbye once.
    private mutating func goodbye(_ visit: Visit) -> GoAwayForm? {
        let startedAt = self.startedAt ?? visit.nanoseconds
        self.startedAt = startedAt
        guard !self.saidGoAway else { return nil }
        if let certificate = self.apns.certificate, !certificate.environments.contains(self.rules.apns.environment) {
            // So Apple says it: nothing of the connection counts, and no request gets an answer of its own.
            self.saidGoAway = true
            self.shard.countGoAway()
            var form = GoAwayForm()
            form.reason = APNsRejection.badCertificateEnvironment.rawValue
            form.lastStream = .none
            return form
        }
        let (faults, age) = (self.world.faults, visit.nanoseconds - startedAt)
        self.saidGoAway =
            visit.fault == .goAway
            || faults.isGoAwayDue(self.listener, requests: self.requests, age: age, now: visit.now)
        guard self.saidGoAway else { return nil }
        self.shard.countGoAway()
        var form = faults.goAwayForm(self.listener, now: visit.now)
        // What counts as accepted and has no answer yet, the client would have to send again if it were disowned.
        if form.lastStream == .none, self.leftWaiting { form.lastStream = .before }
        return form
    }

    private mutating func noteWaiting(_ ruling: Ruling) {
        switch ruling.action {
        case .answer(let answer) where answer.status == 200: if ruling.delayMicroseconds > 0 { self.leftWaiting = true }
        case .half, .silence: self.leftWaiting = true
        case .answer, .refuse, .drop: break
        }
    }

    /// A phase's limit is told with the first request in it, and taken back with the first one after it.
    private mutating func announceStreams(_ ruling: inout Ruling, _ now: UnixMilliseconds) {
        guard self.listener != .apns || self.isOpened else { return }
        let limit = self.world.faults.streamsMax(now: now)
        guard limit != self.streamsMax || ruling.opensStreams else { return }
        if limit == nil, self.streamsMax != nil { ruling.opensStreams = true }
        self.streamsMax = limit
        ruling.streamsMax = limit
    }

    /// A request with its circumstances.
    private struct Visit {
        let route: FaultRoute
        let fault: Fault?
        let retryAfter: RetryAfterForm
        let number: UInt64
        let now: UnixMilliseconds
        let nanoseconds: Int64
    }

    private mutating func refreshRules() {
        let version = self.world.rulesVersion
        guard version != self.rulesVersion else { return }
        self.rulesVersion = version
        self.rules = self.world.rules
    }

    private mutating func ruling(_ request: ProviderRequest, _ visit: Visit) -> Ruling {
        guard visit.fault != .refusal else {
            self.recordUnjudged(request, visit, status: 0)
            return Ruling(action: .refuse)
        }
        if let answer = self.faultyAnswer(request, visit) {
            self.recordUnjudged(request, visit, status: answer.status)
            return Ruling(action: .answer(answer))
        }
        var ruling = self.judged(request, visit)
        switch visit.fault {
        case .silence: ruling.action = .silence
        case .drop: ruling.action = .drop
        case .halfBody: if case .answer(let answer) = ruling.action { ruling.action = .half(answer) }
        default: break
        }
        return ruling
    }

    private func faultyAnswer(_ request: ProviderRequest, _ visit: Visit) -> ProviderAnswer? {
        guard var fault = visit.fault else { return nil }
        let ownsChannels = visit.route == .apns && APNsChannels.owns(request.path)
        if ownsChannels, fault == .unavailable { fault = .reason(APNsRejection.broadcastUnavailable.rawValue) }
        let answer = FaultAnswers.answer(
            fault,
            route: visit.route,
            retryAfter: visit.retryAfter,
            id: ownsChannels ? nil : request.first("apns-id"),
            number: visit.number,
            now: visit.now,
        )
        guard var answer else { return nil }
        if case .answer = fault { return answer }
        if ownsChannels {
            let id = APNsChannels.requestID(of: request, number: visit.number)
            answer.headers.append(ProviderHeader("apns-request-id", id))
        } else if visit.route == .fcm, FCMTopics.owns(request.path) {
            answer = FCMTopics.worded(answer, path: request.path)
        }
        return answer
    }

    /// Whether a request is for a device, a topic or a channel: all else is counted, and not entered into the ledger.
    private static func isMessage(_ request: ProviderRequest, _ route: FaultRoute) -> Bool {
        switch route {
        case .apns: !APNsChannels.isManagement(request.path)
        case .fcm: !FCMTopics.owns(request.path) && !FCMJudge.isValidation(request.body)
        case .oauth: false
        }
    }

    private mutating func judged(_ request: ProviderRequest, _ visit: Visit) -> Ruling {
        var ruling = Ruling(action: .silence)
        switch visit.route {
        case .apns:
            let (answer, address) = self.judgedByApple(request, visit)
            if let address {
                self.record(request, visit, address: address, status: answer.status)
                if answer.status == 200 { self.rules.watcher?(SeenRequest(.apns, request)) }
            } else {
                self.shard.count(.apns, status: answer.status, fault: visit.fault)
            }
            ruling.action = .answer(answer)
            ruling.opensStreams = self.apns.isAuthorized && !self.isOpened
            if ruling.opensStreams { self.isOpened = true }
        case .fcm where FCMTopics.owns(request.path):
            let answer = self.world.topics.judge(
                request,
                judge: self.rules.fcm,
                fates: self.rules.fates,
                now: visit.now,
                fault: visit.fault,
            )
            self.shard.count(.fcm, status: answer.status, fault: visit.fault)
            ruling.action = .answer(answer)
        case .fcm:
            let judgement = self.rules.fcm.judge(
                request,
                fates: self.rules.fates,
                now: visit.now,
                messageID: MessageName.text(number: visit.number),
            )
            if judgement.isValidation {
                self.shard.count(.fcm, status: judgement.answer.status, fault: visit.fault)
            } else {
                self.record(request, visit, address: judgement.address, status: judgement.answer.status)
                if judgement.answer.status == 200 { self.rules.watcher?(SeenRequest(.fcm, request)) }
            }
            ruling.action = .answer(judgement.answer)
        case .oauth:
            let answer = self.rules.oauth.judge(request, now: visit.now, number: visit.number)
            self.record(request, visit, address: "", status: answer.status)
            ruling.action = .answer(answer)
        }
        return ruling
    }

    private mutating func judgedByApple(
        _ request: ProviderRequest,
        _ visit: Visit,
    ) -> (answer: ProviderAnswer, address: String?) {
        guard !APNsChannels.owns(request.path) else {
            return self.world.channels.judge(
                request,
                judge: self.rules.apns,
                connection: &self.apns,
                now: visit.now,
                number: visit.number,
            )
        }
        let answer = self.rules.apns.judge(
            request,
            connection: &self.apns,
            fates: self.rules.fates,
            now: visit.now,
            generatedID: Self.generatedID(visit.number),
        )
        return (answer, "")
    }

    /// A UUID that nobody else gets from this simulator, in the form of version 8 (RFC 9562 §5.8).
    private static func generatedID(_ number: UInt64) -> String {
        UUIDText.text((number & ~0xf000) | 0x8000, number | 0x8000_0000_0000_0000)
    }

    /// Enters a request that no judge saw into the ledger if it is a message, else counts it.
    private func recordUnjudged(_ request: ProviderRequest, _ visit: Visit, status: Int) {
        guard Self.isMessage(request, visit.route) else {
            return self.shard.count(visit.route, status: status, fault: visit.fault)
        }
        let isBroadcast = visit.route == .apns && APNsChannels.owns(request.path)
        self.record(request, visit, address: isBroadcast ? APNsChannels.address(of: request) : "", status: status)
    }

    /// Enters a request into the ledger, whatever became of it.
    ///
    /// - Parameters:
    ///   - address: as a judge read it; empty: to be found here.
    private func record(_ request: ProviderRequest, _ visit: Visit, address: String, status: Int) {
        guard visit.route != .oauth else { return self.shard.count(.oauth, status: status, fault: visit.fault) }
        var token = Array(address.utf8)
        var isRaw = false
        if token.isEmpty {
            if visit.route == .apns {
                let text = request.path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
                let bytes = Hexadecimal.decode(text)
                isRaw = bytes != nil
                token = bytes ?? Array(text.utf8)
            } else {
                token = Array(request.body[PayloadReader.token(in: request.body.span)])
            }
        }
        let send = PayloadReader.send(in: request.body.span, route: visit.route)
        var id = LedgerShard.ID.none
        if visit.route == .apns {
            let words = request.first("apns-id").flatMap { UUIDText.words(Array($0.utf8).span) }
            if let words { id = .uuid(words.0, words.1) }
        } else if status == 200 {
            id = .number(visit.number)
        }
        self.shard.record(
            visit.route,
            token: Array(token.prefix(Limits.tokenBytesMax)).span,
            isRaw: isRaw,
            id: id,
            send: request.body.span.extracting(send),
            status: status,
            fault: visit.fault,
            time: visit.nanoseconds,
        )
    }
}
