internal import ApusCore

/// Decides about the requests of one blind connection and enters them into the ledger.
struct BlindDesk {
    /// What is to be done about a request.
    struct Verdict {
        enum Action {
            /// 200 without a body.
            case accept
            case answer(ProviderAnswer)
            case silence
            case refuse
            case drop
        }

        var action: Action
        var delayMicroseconds: Int64
        var isLast: Bool
    }

    private static let devicePath = Array("/3/device/".utf8)
    private static let tokenPath = Array("/token".utf8)

    private let world: World
    private let shard: LedgerShard
    private let listener: FaultRoute
    private let number: UInt64
    private var rules: Rules
    private var rulesVersion: UInt64
    private var requests: UInt64 = 0
    private var now = UnixMilliseconds(0)
    /// The time of the batch in hand.
    private(set) var nanoseconds: Int64 = 0
    /// The time of the first batch.
    private var startedAt: Int64 = 0
    private var saidGoAway = false

    init(world: World, shard: LedgerShard, listener: FaultRoute) {
        precondition(listener != .oauth, "the token endpoint stands on FCM's listener")
        self.world = world
        self.shard = shard
        self.listener = listener
        self.number = world.nextConnection()
        self.rulesVersion = world.rulesVersion
        self.rules = world.rules
        shard.countConnection()
    }

    /// A batch of requests comes in.
    mutating func begin(nanoseconds: Int64) {
        if self.startedAt == 0 { self.startedAt = nanoseconds }
        self.nanoseconds = nanoseconds
        self.now = UnixMilliseconds(nanoseconds / 1_000_000)
        let version = self.world.rulesVersion
        guard version != self.rulesVersion else { return }
        self.rulesVersion = version
        self.rules = self.world.rules
    }

    /// What of the headers is kept until the body is there.
    @inline(__always)
    func request(_ streamID: UInt32, path: [UInt8], id: [UInt8]) -> BlindRequest {
        var request = BlindRequest()
        request.streamID = streamID
        if self.listener == .apns {
            if !id.isEmpty { request.id = UUIDText.words(id.span) }
            if path.count == Self.devicePath.count + 64, let token = HexWords.decode(path.span, from: path.count - 64) {
                request.token = token
                request.hasToken = true
            }
        } else {
            request.isTokenEndpoint = path.starts(with: Self.tokenPath)
        }
        if !request.hasToken || !self.world.faults.isQuiet { request.path = path }
        return request
    }

    /// Decides.
    @inline(__always)
    mutating func judge(_ request: borrowing BlindRequest, body: Span<UInt8>) -> Verdict {
        self.requests += 1
        let isQuiet = self.world.faults.isQuiet
        if isQuiet, self.listener == .apns, request.hasToken { return self.judgeApple(request, body: body) }
        return self.judgeSlowly(request, body: body)
    }

    /// The way of nearly all: Apple's request with a classic token, and nothing goes wrong.
    @inline(__always)
    private func judgeApple(_ request: borrowing BlindRequest, body: Span<UInt8>) -> Verdict {
        var entry = self.entry(request)
        let fate = self.rules.fates.fate(of: TokenDigest(words: request.token), now: self.now)
        let answer = fate.flatMap { self.answer(to: $0) }
        entry.status = answer?.status ?? 200
        self.shard.record(entry, send: body.extracting(PayloadReader.send(in: body, route: .apns)))
        return Verdict(action: answer.map { .answer($0) } ?? .accept, delayMicroseconds: 0, isLast: false)
    }

    @inline(__always)
    private func entry(_ request: borrowing BlindRequest) -> PackedEntry {
        var entry = PackedEntry()
        entry.time = self.nanoseconds
        entry.route = FaultRoute.apns.rawValue
        entry.token = request.token
        entry.tokenLength = 32
        entry.flags.insert(.rawToken)
        if let id = request.id {
            entry.id = id
            entry.flags.insert(.uuid)
        }
        return entry
    }

    @inline(never)
    private mutating func judgeSlowly(_ request: borrowing BlindRequest, body: Span<UInt8>) -> Verdict {
        let route = request.isTokenEndpoint ? FaultRoute.oauth : self.listener
        let draw = self.world.faults.next(route, path: request.path.span, now: self.now)
        var verdict = Verdict(
            action: .accept,
            delayMicroseconds: draw.delayMicroseconds,
            isLast: self.isLast(draw.fault),
        )
        let number = self.number << 32 | self.requests
        let token = self.token(request, body: body, route: route)
        if draw.fault == .refusal {
            verdict.action = .refuse
        } else if let answer = self.faultyAnswer(draw, route: route, number: number) {
            verdict.action = .answer(answer)
        } else {
            verdict.action = self.granted(route, token: token, number: number)
        }
        self.record(request, body: body, route: route, token: token, verdict, draw.fault, number)
        switch draw.fault {
        // A half body is none to whoever only counts.
        case .silence, .halfBody: verdict.action = .silence
        case .drop: verdict.action = .drop
        default: break
        }
        return verdict
    }

    /// A connection says goodbye once.
    private mutating func isLast(_ fault: Fault?) -> Bool {
        guard !self.saidGoAway else { return false }
        let age = self.nanoseconds - self.startedAt
        self.saidGoAway =
            fault == .goAway || self.world.faults.isGoAwayDue(self.listener, requests: self.requests, age: age)
        if self.saidGoAway { self.shard.countGoAway() }
        return self.saidGoAway
    }

    private func faultyAnswer(_ draw: FaultDraw, route: FaultRoute, number: UInt64) -> ProviderAnswer? {
        guard let fault = draw.fault else { return nil }
        return FaultAnswers.answer(
            fault,
            route: route,
            retryAfter: draw.retryAfter ?? self.world.faults.plan.retryAfter,
            id: nil,
            number: number,
            now: self.now,
        )
    }

    private func granted(_ route: FaultRoute, token: [UInt8], number: UInt64) -> Verdict.Action {
        if route == .oauth { return .answer(self.rules.oauth.grantBlindly(now: self.now, number: number)) }
        let fate = self.rules.fates.fate(of: TokenDigest(token.span), now: self.now)
        if let answer = fate.flatMap({ self.answer(to: $0) }) { return .answer(answer) }
        guard route == .fcm else { return .accept }
        let name = "projects/blind/messages/\(MessageName.text(number: number))"
        return .answer(ProviderAnswer(status: 200, body: Array("{\"name\":\"\(name)\"}".utf8)))
    }

    private func answer(to fate: TokenFate) -> ProviderAnswer? {
        guard self.listener == .apns else { return FCMJudge.refusal(for: fate) }
        switch fate {
        case .dead(let since): return APNsRejection.unregistered.answer(id: nil, timestamp: since)
        case .expired(let since): return APNsRejection.expiredToken.answer(id: nil, timestamp: since)
        case .bad: return APNsRejection.badDeviceToken.answer(id: nil)
        case .foreign: return APNsRejection.deviceTokenNotForTopic.answer(id: nil)
        case .alive: return nil
        }
    }

    /// Apple's raw, or as text if it is not hexadecimal; Google's as it stands in the body.
    private func token(_ request: borrowing BlindRequest, body: Span<UInt8>, route: FaultRoute) -> [UInt8] {
        switch route {
        case .oauth: return []
        case .fcm:
            let range = PayloadReader.token(in: body)
            var token: [UInt8] = []
            token.append(span: body.extracting(range))
            return token
        case .apns:
            guard !request.hasToken else { return HexWords.bytes(request.token) }
            let text = request.path.drop { $0 != 0x2f }.split(separator: 0x2f).last ?? []
            return Hexadecimal.decode(String(decoding: text, as: UTF8.self)) ?? Array(text)
        }
    }

    private func record(
        _ request: borrowing BlindRequest,
        body: Span<UInt8>,
        route: FaultRoute,
        token: [UInt8],
        _ verdict: Verdict,
        _ fault: Fault?,
        _ number: UInt64,
    ) {
        let status: Int
        switch verdict.action {
        case .accept: status = 200
        case .answer(let answer): status = answer.status
        case .silence, .refuse, .drop: status = 0
        }
        guard route != .oauth else { return self.shard.count(.oauth, status: status, fault: fault) }
        var id = LedgerShard.ID.none
        if let words = request.id {
            id = .uuid(words.0, words.1)
        } else if route == .fcm, status == 200 {
            id = .number(number)
        }
        let range = PayloadReader.send(in: body, route: route)
        self.shard.record(
            route,
            token: Array(token.prefix(Limits.tokenBytesMax)).span,
            isRaw: route == .apns,
            id: id,
            send: body.extracting(range),
            status: status,
            fault: fault,
            time: self.nanoseconds,
        )
    }
}
