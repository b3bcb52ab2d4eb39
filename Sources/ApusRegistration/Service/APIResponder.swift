internal import ApusCore
internal import ApusMetrics
internal import ApusService
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import Synchronization

/// Answers requests: finds the route, the caller and the body, and calls the API. It counts and measures each request, and logs only faults
/// of our own.
struct APIResponder: HTTPResponder {
    typealias Context = APIContext

    let api: RegistrationAPI
    let rates: RequestRates
    let failures: AuthenticationGuard
    /// The shares that hold the bodies of requests until they are answered, and the answers until they are read.
    let memory: MemoryShares
    let authenticator: @Sendable () -> Authenticator
    /// The settings of an app; nil when it is not in the configuration.
    let apps: @Sendable (AppID) -> AppSettings?
    let metrics: RegistrationMetrics
    let shared: SharedMetrics
    let requestIDs = RequestIDs()
    let clock: any WallClock
    let errors: ErrorLog

    private static let requestIDName = HTTPField.Name("x-request-id")
    private static let hostName = HTTPField.Name("host")
    private static let acceptPatchName = HTTPField.Name("accept-patch")

    func respond(to request: Request, context: APIContext) async throws -> Response {
        let start = ContinuousClock.now
        self.shared.add(1, to: self.metrics.requestsInFlight)
        defer { self.shared.add(-1, to: self.metrics.requestsInFlight) }
        let requestID = self.requestIDs.id(Self.requestIDName.flatMap { request.headers[$0] })
        let path = APIPath(request.head.path ?? "")
        let route = path?.route ?? .none
        let verb = HTTPVerb(request.method, on: route)
        let app = path?.app.flatMap { try? AppID($0) }.flatMap(self.apps)
        let crossOrigin = CrossOrigin(allowed: app?.corsOrigins ?? [])
        var answer: APIResponse
        let code: HTTPCode
        do throws(ProblemDetails) {
            try Self.checkHost(request)
            guard RequestExpectation(request.headers) != .unknown else { throw .unknownExpectation }
            if let path, request.method == .options {
                answer = crossOrigin.options(request.headers, path.route.verbs)
            } else if path?.route == .webPushKey, verb == .get {
                answer = try Self.webPushKey(of: app)
            } else {
                answer = try await self.answer(request, context, path, verb)
            }
            code = HTTPCode(answer.status)
        } catch {
            answer = Self.answer(error, requestID: requestID)
            code = error.kind.code
            self.note(error, requestID: requestID)
        }
        crossOrigin.addHeaders(to: &answer.headers, origin: request.headers[.origin])
        if let name = Self.requestIDName { answer.headers[name] = requestID }
        self.shared.add(to: self.metrics.requests[HTTPOperation(route, verb), code])
        let elapsed = ContinuousClock.now - start
        self.shared.observe(elapsed.nanoseconds, in: self.metrics.requestDuration[route.group])
        return Self.response(answer, isHead: request.method == .head)
    }

    /// Refuses a request that a proxy in front may read as one for another host.
    ///
    /// Source: RFC 9112 §3.2.
    private static func checkHost(_ request: Request) throws(ProblemDetails) {
        // The first Host is the authority; another one stays among the fields.
        guard let host = request.head.authority, Self.hostName.map({ !request.headers.contains($0) }) ?? true else {
            throw ProblemDetails(.malformedRequest, "a request has the header Host exactly once")
        }
        // RFC 3986 §3.2.2 and §3.2.3: a name or an address, and a port; no user.
        guard host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && !Self.noHostCharacters.contains($0) }) else {
            throw ProblemDetails(.malformedRequest, "the header Host must be a host, and a port if need be")
        }
    }

    private static let noHostCharacters = Array("/?#@\\\"<>^`{|}".utf8)

    private func answer(
        _ request: Request,
        _ context: APIContext,
        _ path: APIPath?,
        _ verb: HTTPVerb,
    ) async throws(ProblemDetails) -> APIResponse {
        guard let path else { throw ProblemDetails(.notFound, "there is no such path") }
        guard verb != .other else {
            var problem = ProblemDetails(.methodNotAllowed, "the resource does not have the method")
            problem.allowed = path.route.verbs.map(\.rawValue)
            throw problem
        }
        if path.route == .openAPI {
            guard !self.memory.anybody.isSpent else { throw .memorySpent }
            return .openAPI
        }
        if path.route == .matrix { return try await self.matrix(request, context, verb) }
        let (app, caller) = try self.caller(request, path, at: context.channel.remoteAddress)
        try self.rates.check(app, caller)
        if path.route == .user, verb == .delete { try self.rates.checkRemoval(app, caller) }
        try path.checkQuery(verb)
        let bytesMax = APILimits.operationBytesMax(path.route, verb)
        let share = self.memory.share(of: app, caller)
        context.hold(in: share)
        return try await self.withBody(of: request, context, bytesMax: bytesMax, in: share) {
            body async throws(ProblemDetails) in
            let call = APICall(
                app: app,
                caller: caller,
                path: path,
                request: APIRequest(
                    headers: request.headers,
                    body: body,
                    stream: request.body,
                    askForContent: context.askForContent,
                ),
                memory: share,
            )
            return try await self.api.answer(call, verb)
        }
    }

    /// Answers with the body of a request, whose bytes count as held from when they arrive until then: a body that is announced and does not
    /// come takes nothing.
    ///
    /// - Parameters:
    ///   - bytesMax: 0 for a request without a body, or with one that is read as a stream.
    ///   - share: the memory that holds it.
    private func withBody(
        of request: Request,
        _ context: APIContext,
        bytesMax: Int,
        in share: MemoryBudget,
        _ answer: ([UInt8]) async throws(ProblemDetails) -> APIResponse,
    ) async throws(ProblemDetails) -> APIResponse {
        guard !share.isSpent else { throw .memorySpent }
        guard bytesMax > 0 else { return try await answer([]) }
        let length = request.headers[.contentLength].flatMap(Int.init) ?? min(bytesMax, APILimits.bodyBytesMax)
        guard length <= bytesMax else { throw Self.tooLarge(bytesMax) }
        guard share.hasRoom(for: length * APILimits.bodyCopies) else { throw .memorySpent }
        context.askForContent()
        let held = MemoryReservation(share)
        let response = try await answer(try await Self.body(of: request, bytesMax: bytesMax, held))
        withExtendedLifetime(held) {}
        return response
    }

    /// Answers a Matrix homeserver, which has no credentials: the configuration names the app ids that it may name.
    private func matrix(
        _ request: Request,
        _ context: APIContext,
        _ verb: HTTPVerb,
    ) async throws(ProblemDetails) -> APIResponse {
        var apps: [String: AppID] = [:]
        for app in self.authenticator().appIDs {
            for id in self.apps(app)?.matrixAppIDs ?? [] { apps[id] = app }
        }
        guard !apps.isEmpty else { throw ProblemDetails(.notFound, "no app of the configuration has matrix.app_ids") }
        guard verb == .post else { return MatrixAPI.discovery }
        let address = AddressCounts.Address(context.channel.remoteAddress)
        try self.rates.checkHomeserver(address)
        let bytesMax = APILimits.operationBytesMax(.matrix, verb)
        return try await self.withBody(of: request, context, bytesMax: bytesMax, in: self.memory.anybody) {
            body async throws(ProblemDetails) in
            try await self.api.notify(body, apps, from: address, self.rates)
        }
    }

    /// Returns the key that browsers subscribe with, to anybody: it stands in the app's pages.
    private static func webPushKey(of app: AppSettings?) throws(ProblemDetails) -> APIResponse {
        guard let key = app?.subscriptions?.publicKey else {
            throw ProblemDetails(.notFound, "the configuration names no webpush.public_key for such an app")
        }
        var answer = APIResponse.json(.ok, ["application_server_key": .string(Base64URL.encode(key))])
        answer.headers[.cacheControl] = "public, max-age=\(APILimits.publicKeySeconds)"
        return answer
    }

    /// Identifies the caller, unless its address has failed too often.
    private func caller(
        _ request: Request,
        _ path: APIPath,
        at address: SocketAddress?,
    ) throws(ProblemDetails) -> (AppID, Caller) {
        let waitSeconds = self.failures.waitSeconds(of: address)
        var token: UInt64?
        do throws(AuthenticationFailure) {
            let who = try self.authenticator().authenticate(
                request.headers[.authorization],
                app: path.app ?? "",
                access: path.route.access,
                now: self.clock.now(),
                admitsToken: { digest in
                    token = digest
                    return waitSeconds == nil || self.failures.hasAccepted(digest)
                },
            )
            if let token { self.failures.recordAcceptance(of: token) }
            return (who.app, who.caller)
        } catch {
            if error.cause == .unknownApp, let app = path.app { self.errors.recordUnknownApp(app) }
            guard error.cause != .keysUnread else { throw .keysUnread(error) }
            guard error.cause != .missing, error.cause != .role else { throw ProblemDetails(error) }
            // All that fail look the same beyond the limit, as before: the answer does not tell which apps there are.
            if let waitSeconds { throw .failedTooOften(waitSeconds: waitSeconds) }
            self.failures.recordFailure(of: address)
            throw ProblemDetails(error)
        }
    }

    private static func tooLarge(_ bytesMax: Int) -> ProblemDetails {
        ProblemDetails(.contentTooLarge, "the content must have at most \(bytesMax) bytes")
    }

    /// Reads a body, and holds each part of it as it arrives.
    private static func body(
        of request: Request,
        bytesMax: Int,
        _ held: MemoryReservation,
    ) async throws(ProblemDetails) -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            for try await part in request.body {
                guard bytes.count + part.readableBytes <= bytesMax else { throw Self.tooLarge(bytesMax) }
                guard held.grow(by: part.readableBytes * APILimits.bodyCopies) else { throw ProblemDetails.memorySpent }
                bytes += part.readableBytesView
            }
            return bytes
        } catch let problem as ProblemDetails {
            throw problem
        } catch {
            throw ProblemDetails(.malformedRequest, "the content did not arrive as a whole")
        }
    }

    // MARK: Answers

    private static func answer(_ problem: ProblemDetails, requestID: String) -> APIResponse {
        var headers: HTTPFields = [.contentType: "application/problem+json", .cacheControl: "no-store"]
        if problem.kind == .unauthorized {
            // RFC 6750 §3.1: without credentials there is no error to name.
            let hadNone = problem.authenticationCause == .missing
            headers[.wwwAuthenticate] = "Bearer realm=\"apus\"" + (hadNone ? "" : ", error=\"invalid_token\"")
        }
        if !problem.allowed.isEmpty { headers[.allow] = problem.allowed.joined(separator: ", ") }
        if problem.acceptsPatches, let name = Self.acceptPatchName { headers[name] = MediaType.mergePatch.name }
        if let seconds = problem.retryAfterSeconds { headers[.retryAfter] = String(seconds) }
        return APIResponse(status: problem.kind.status, headers: headers, body: problem.json(requestID: requestID))
    }

    private static func response(_ answer: APIResponse, isHead: Bool) -> Response {
        let hasBody = answer.status != .noContent && answer.status != .notModified
        let whole = answer.stream ?? ResponseBody(byteBuffer: answer.shared ?? ByteBuffer(bytes: answer.body))
        let body = hasBody ? whole : ResponseBody()
        var response = Response(status: answer.status, headers: answer.headers, body: body)
        // RFC 9110 §8.6: a 204 has none, and a 304 only that of the 200.
        if !hasBody { response.headers[.contentLength] = nil }
        return isHead ? response.createHeadResponse() : response
    }

    private func note(_ problem: ProblemDetails, requestID: String) {
        if let cause = problem.kind.rejection, problem.authenticationCause == nil {
            self.shared.add(to: self.metrics.rejected[cause])
        }
        if let cause = problem.authenticationCause {
            self.shared.add(to: self.metrics.authenticationFailures[cause])
        }
        guard problem.kind == .internalError || problem.kind == .unavailable else { return }
        self.errors.record(problem.kind.rawValue, problem.cause ?? problem.detail, requestID: requestID)
    }
}

/// Holds a request's connection.
struct APIContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The connection that the request came on.
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }

    /// Lets a share hold the content of the answer until the client reads it.
    func hold(in share: MemoryBudget) {
        self.channel.triggerUserOutboundEvent(RequestGuard.AnswerShare(budget: share), promise: nil)
    }

    /// Tells a client that waits with its content to send it.
    @Sendable func askForContent() {
        self.channel.triggerUserOutboundEvent(RequestGuard.ContentWanted(), promise: nil)
    }
}

extension HTTPCode {
    /// Returns the code in metrics of an answer that is no problem; bodies of foreign formats have refusals of their own form.
    init(_ status: HTTPResponse.Status) {
        self =
            switch status {
            case .notModified: .notModified
            case .badRequest: .badRequest
            default: .successful
            }
    }
}

extension HTTPVerb {
    /// Returns the operation of a method; HEAD is GET without the body (RFC 9110 §9.3.2).
    init(_ method: HTTPRequest.Method, on route: HTTPRoute) {
        let verb: Self =
            switch method {
            case .get, .head: .get
            case .put: .put
            case .post: .post
            case .patch: .patch
            case .delete: .delete
            default: .other
            }
        self = route.verbs.contains(verb) ? verb : .other
    }
}

extension Duration {
    /// Returns whole nanoseconds.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = self.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
