internal import ApusCommand
internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusStreams
internal import ApusTLS
internal import ApusTerminal
internal import ApusTexts
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization

/// Answers requests of browsers: checks host and session, reads what the page shows, and draws it.
struct ConsoleResponder: HTTPResponder {
    typealias Context = BasicRequestContext

    /// The maximum of bytes of a form.
    static let formBytesMax = 256 * 1_024
    /// The maximum of pages that are kept up to date at once.
    static let liveMax = 64
    /// The time between two looks of a page that is kept up to date.
    static let liveInterval = Duration.seconds(2)
    /// The maximum of refused attempts to sign in within ``signInPeriod``, of all clients together.
    static let signInFailuresMax = 30
    /// The period in which they count, in milliseconds.
    static let signInPeriod: Int64 = 60_000
    /// The name of the cookie with the session's secret.
    static let cookieName = "apus_console"

    let reader: ConsoleReader
    let actions: ConsoleActions
    let rates: RateSampler
    let access: ConsoleAccess
    let clock: any WallClock
    let state: State

    /// Holds what requests share.
    final class State: Sendable {
        struct Values {
            var sessions = SessionTable()
            /// The number of pages that are kept up to date.
            var live = 0
            /// The times of refused attempts to sign in, and of those that are not decided yet.
            var failures: [UnixMilliseconds] = []
        }

        let values = Mutex(Values())
    }

    // MARK: Requests

    func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
        let target = request.head.path ?? "/"
        let path = String(target.prefix { $0 != "?" })
        let query = FormFields(target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst()) ?? FormFields()
        var response: Response
        do {
            response = try await self.answer(request, ConsolePath(path), query, target)
        } catch {
            response = await self.failure(ConsoleFailure(error), request, target)
        }
        for (name, value) in Self.headers(isSecure: self.access.isSecure) { response.headers[name] = value }
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func answer(
        _ request: Request,
        _ path: ConsolePath?,
        _ query: FormFields,
        _ target: String,
    ) async throws -> Response {
        guard self.access.isOwn(host: request.head.authority ?? "") else {
            throw ConsoleFailure(
                .misdirectedRequest,
                "Another host",
                "This console does not answer for that host name: name it with --public-url."
            )
        }
        guard let path else { throw ConsoleFailure.missing }
        if case .asset(let name) = path { return try Self.asset(name) }
        // Browsers ask for updates by themselves, as long as a page is open.
        let viewer = try await self.viewer(request, isUse: path != .live)
        guard self.access.isOpenForReading || viewer.session != nil || path == .signIn else {
            return Self.redirect(to: "/sign-in?next=\(FormFields.encoded(target))")
        }
        if let app = path.app, !viewer.mayRead(app.text) { throw ConsoleFailure.missing }
        switch request.method {
        case .get, .head:
            if path == .live { return try await self.live(query, viewer, request) }
            if case .app(let app, .sends) = path, let send = try? SendID(query["open"]) {
                return Self.redirect(to: ConsolePath.send(app, send).text)
            }
            let page = try await self.page(path, query, viewer)
            return self.document(page, viewer, path, query, target, notice: Self.notice(query, viewer))
        case .post: return try await self.act(request, path, viewer, target)
        default: throw ConsoleFailure(.methodNotAllowed, "Not allowed", "Pages are read, and forms are sent.")
        }
    }

    /// Returns what a viewer may see; its session ends when its key was revoked.
    ///
    /// - Parameter isUse: true for a request of a person, after which the session lives on.
    private func viewer(_ request: Request, isUse: Bool = true) async throws -> Viewer {
        var session: Session?
        if let secret = Self.secret(of: request) {
            let now = self.clock.now()
            session = self.state.values.withLock { values in
                isUse ? values.sessions.use(secret, now: now) : values.sessions.session(secret, now: now)
            }
            if let found = session {
                let keys = try await self.reader.adminKeys(of: found.app)
                if !keys.contains(where: { $0.name == found.key && $0.sha256 == found.keySHA256 }) {
                    self.state.values.withLock { $0.sessions.end(secret) }
                    session = nil
                }
            }
        }
        let apps =
            self.access.isOpenForReading
            ? try await self.reader.apps() : session.map { [$0.app.text] } ?? []
        return Viewer(session: session, apps: apps)
    }

    private static func secret(of request: Request) -> String? {
        for cookie in (request.headers[.cookie] ?? "").split(separator: ";") {
            let parts = cookie.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            if parts.count == 2, parts[0] == Self.cookieName { return String(parts[1]) }
        }
        return nil
    }

    // MARK: Pages

    private func page(
        _ path: ConsolePath,
        _ query: FormFields,
        _ viewer: Viewer,
        isLive: Bool = false
    ) async throws -> Page {
        let now = self.clock.now()
        switch path {
        case .overview:
            let overview = try await self.reader.overview(of: viewer.apps, rates: self.rates.rates(of: viewer.apps))
            return OverviewView(viewer: viewer, overview: overview).page
        case .signIn:
            let next = query["next"]
            let app = ConsolePath(next.prefix { $0 != "?" })?.app?.text ?? viewer.apps.first ?? ""
            return SignInView(next: next, app: self.access.isOpenForReading ? app : "").page
        case .send(let app, let send):
            guard let details = try await self.reader.send(app, send, isWhole: !isLive) else {
                throw ConsoleFailure(
                    .notFound,
                    "No such send",
                    "Nothing is known of \(send) of \(app): check the id. What became of a send is known for some days."
                )
            }
            return SendView(viewer: viewer, app: app, send: send, details: details).page
        case .app(let app, let page): return try await self.page(page, of: app, query, viewer, now)
        case .signOut, .live, .asset: throw ConsoleFailure.missing
        }
    }

    private func page(
        _ page: AppPage,
        of app: AppID,
        _ query: FormFields,
        _ viewer: Viewer,
        _ now: UnixMilliseconds,
    ) async throws -> Page {
        switch page {
        case .sends:
            let search = query["search"]
            guard search.isEmpty || (try? SendID(search)) != nil else {
                throw ConsoleFailure(
                    .badRequest,
                    "No such id",
                    "A send's id has letters, digits, '.', '_', ':' and '-'."
                )
            }
            let list = try await self.reader.sends(
                of: app,
                state: SendLists.State(rawValue: query["state"]),
                search: search,
                from: SendListCursor(query["cursor"]),
            )
            return SendListView(viewer: viewer, app: app, list: list, now: now).page
        case .compose:
            let form = ComposedSend(id: "c" + Hexadecimal.encode(SecureRandom.bytes(12)))
            return ComposeView(viewer: viewer, app: app, form: form).page
        case .devices:
            let search = try await self.reader.devices(
                of: app,
                device: query["device"],
                user: query["user"],
                token: query["token"],
            )
            return DevicesView(viewer: viewer, app: app, search: search, now: now).page
        case .topics: return try await self.audiences(of: app, query, viewer, now)
        case .routes:
            let counts = try await self.reader.deviceCounts(of: app)
            return RoutesView(
                viewer: viewer,
                app: app,
                routes: try await self.reader.routes(of: app),
                credentials: try await self.reader.credentials(of: app),
                devices: Dictionary(counts.map { ($0.route, $0.count) }) { first, _ in first },
                now: now,
            ).page
        case .deadLetters:
            let cause = DeadLetter.Cause.allCases.first { $0.name == query["cause"] }
            let letters = try await self.reader.deadLetters(of: app, cause: cause)
            return DeadLettersView(viewer: viewer, app: app, letters: letters, cause: cause, now: now).page
        case .quarantine:
            let routes = try await self.reader.quarantine(of: app)
            return QuarantineView(viewer: viewer, app: app, routes: routes, now: now).page
        case .audit:
            let before = query["before"]
            let isEntry = !before.isEmpty && before.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2d }
            let entries = try await self.actions.installation.streams.audit.newest(
                AuditView.countMax,
                app: app.text,
                before: isEntry ? before : nil,
            )
            let next = entries.count == AuditView.countMax ? entries.last?.id : nil
            return AuditView(viewer: viewer, app: app, entries: entries, next: next).page
        }
    }

    private func audiences(
        of app: AppID,
        _ query: FormFields,
        _ viewer: Viewer,
        _ now: UnixMilliseconds,
    ) async throws -> Page {
        let topics = try await self.reader.topics(of: app)
        let (search, expression) = (query["topic"], query["expression"])
        var (report, mistake) = (AudienceReport?.none, String?.none)
        if !expression.isEmpty {
            do {
                report = try await AudienceReport.run(
                    expression,
                    app: app,
                    of: self.reader.installation,
                    now: now,
                    readsRecords: true,
                )
            } catch let failure as CommandFailure {
                mistake = failure.description
            }
        }
        let found = search.isEmpty ? topics : topics.filter { $0.lowercased().contains(search.lowercased()) }
        return TopicsView(
            viewer: viewer,
            app: app,
            topics: Array(found.prefix(TopicsView.countMax)),
            count: topics.count,
            search: search,
            expression: expression,
            report: report,
            mistake: mistake,
            devices: try await self.reader.deviceCounts(of: app),
        ).page
    }

    // MARK: Live pages

    /// Sends the live part of a page whenever it has changed, until the reader goes, the session ends or the console stops.
    private func live(_ query: FormFields, _ viewer: Viewer, _ request: Request) async throws -> Response {
        let target = query["page"]
        guard let path = ConsolePath(target.prefix { $0 != "?" }), path != .live,
            path.app.map({ viewer.mayRead($0.text) }) ?? true
        else { throw ConsoleFailure.missing }
        let fields = FormFields(target.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst()) ?? FormFields()
        guard self.state.values.withLock({ $0.live < Self.liveMax }) else {
            throw ConsoleFailure(.serviceUnavailable, "Too many pages", "As many pages as may be are kept up to date.")
        }
        let body = ResponseBody { writer in
            // A page counts while its updates are written: who asks for the head only, or has gone before it, takes no place.
            let hasRoom = self.state.values.withLock { values in
                guard values.live < Self.liveMax else { return false }
                values.live += 1
                return true
            }
            guard hasRoom else { return try await writer.finish(nil) }
            defer { self.state.values.withLock { $0.live -= 1 } }
            var shown: HTML?
            while !Task.isCancelled, !Task.isShuttingDownGracefully {
                guard let current = try? await self.viewer(request, isUse: false),
                    current.session?.formToken == viewer.session?.formToken
                else { break }
                if let live = try? await self.page(path, fields, current, isLive: true).live, live != shown {
                    shown = live
                    let event = ServerSentEvent.text("update", data: live.description)
                    try await writer.write(ByteBuffer(string: event))
                } else {
                    try await writer.write(ByteBuffer(string: ServerSentEvent.pause))
                }
                try? await cancelWhenGracefulShutdown { try await Task.sleep(for: Self.liveInterval) }
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "text/event-stream"], body: body)
    }

    // MARK: Acts

    private func act(
        _ request: Request,
        _ path: ConsolePath,
        _ viewer: Viewer,
        _ target: String
    ) async throws -> Response {
        guard (request.headers[.contentType] ?? "").hasPrefix("application/x-www-form-urlencoded") else {
            throw ConsoleFailure(.unsupportedMediaType, "That did not work", "A form is expected.")
        }
        let origin = request.headers[.origin]
        guard self.access.isOwn(origin: origin) else {
            throw ConsoleFailure(.forbidden, "That did not work", "The form came from another site.")
        }
        let buffer = try await request.body.collect(upTo: Self.formBytesMax)
        guard let fields = FormFields(buffer.readableBytesView) else {
            throw ConsoleFailure(.badRequest, "That did not work", "The form cannot be read.")
        }
        if path == .signIn { return try await self.signIn(fields) }
        guard let session = viewer.session else {
            return Self.redirect(to: "/sign-in?next=\(FormFields.encoded(target))")
        }
        guard ConstantTime.equals(Array(fields["form_token"].utf8), Array(session.formToken.utf8)) else {
            throw ConsoleFailure(
                .forbidden,
                "That did not work",
                "The form is of another session: open the page again."
            )
        }
        if path == .signOut {
            if let secret = Self.secret(of: request) { self.state.values.withLock { $0.sessions.end(secret) } }
            var response = Self.redirect(to: "/")
            response.headers[.setCookie] = self.cookie("", seconds: 0)
            return response
        }
        guard let app = path.app, viewer.mayAct(app.text) else {
            throw ConsoleFailure(.forbidden, "That did not work", "Your key is of another app.")
        }
        if !ConfirmationView.isConfirmed(fields),
            let confirmation = try await self.reader.confirmation(of: app, at: path, fields)
        {
            let view = ConfirmationView(viewer: viewer, path: path, fields: fields, confirmation: confirmation)
            return self.document(view.page, viewer, path, fields, target, notice: nil)
        }
        let someone = Operator("key \(session.key)", through: .console)
        let done: String
        switch path {
        case .send(_, let send): done = try await self.actions.control(app, send, fields, by: someone)
        case .app(_, .routes): done = try await self.actions.controlRoute(app, fields, by: someone)
        case .app(_, .quarantine): done = try await self.actions.settle(app, fields, by: someone)
        case .app(_, .deadLetters): done = try await self.actions.handleLetters(app, fields, by: someone)
        case .app(_, .devices): done = try await self.actions.forget(app, fields, by: someone)
        case .app(_, .compose): return try await self.compose(app, fields, viewer, someone, request)
        default: throw ConsoleFailure.missing
        }
        return self.redirect(to: path, saying: done, request)
    }

    private func compose(
        _ app: AppID,
        _ fields: FormFields,
        _ viewer: Viewer,
        _ someone: Operator,
        _ request: Request,
    ) async throws -> Response {
        let target = request.head.path ?? "/"
        let form = ComposedSend(fields)
        let path = ConsolePath.app(app, .compose)
        var view = ComposeView(viewer: viewer, app: app, form: form)
        do {
            guard (try? SendID(form.id)) != nil else { throw CommandFailure("Open the form again.") }
            let command = try form.command(app: app, now: self.clock.now())
            if fields["action"] == "send", !ConfirmationView.isConfirmed(fields) {
                let confirmation = ComposeView.confirmation(of: command, report: try? await self.reader.dryRun(command))
                var fields = fields
                // An answer that comes twice is one send only if both have the same start.
                if let start = command.notBefore { fields.replace("start", with: SendArguments.text(of: start)) }
                let view = ConfirmationView(viewer: viewer, path: path, fields: fields, confirmation: confirmation)
                return self.document(view.page, viewer, path, fields, target, notice: nil)
            }
            if fields["action"] == "send" {
                let id = try SendID(form.id)
                guard let send = try await self.actions.publish(command, isExpress: form.isExpress, by: someone) else {
                    let words =
                        "This form has published another send, and not this one. To publish this one too, open the form again."
                    let notice = Layout.Notice(isError: true, text: words, subject: .send(app, id))
                    return self.document(view.page, viewer, path, fields, target, notice: notice, status: .conflict)
                }
                return self.redirect(to: .send(app, try SendID(send)), saying: "It is published.", request)
            }
            view.command = command
            do {
                view.report = try await self.reader.dryRun(command)
            } catch let problem as Problem {
                view.command = nil
                throw CommandFailure("It would be refused: \(problem.detail) (\(problem.field))")
            } catch let failure as CommandFailure {
                view.untried = failure.description
            }
        } catch let error where error is CommandFailure || error is SendArguments.UsageError {
            let notice = Layout.Notice(isError: true, text: "\(error)")
            return self.document(view.page, viewer, path, fields, target, notice: notice, status: .unprocessableContent)
        }
        return self.document(view.page, viewer, path, fields, target, notice: nil)
    }

    private func signIn(_ fields: FormFields) async throws -> Response {
        // An attempt counts as refused while Redis is asked, or many at once would pass.
        let began = self.state.values.withLock { values -> UnixMilliseconds? in
            let now = self.clock.now()
            values.failures.removeAll { now.milliseconds(since: $0) >= Self.signInPeriod || $0 > now }
            guard values.failures.count < Self.signInFailuresMax else { return nil }
            values.failures.append(now)
            return now
        }
        guard let now = began else {
            throw ConsoleFailure(.tooManyRequests, "Too many attempts", "Wait a minute and try again.")
        }
        var isRefused = false
        defer {
            if !isRefused {
                self.state.values.withLock { values in
                    if let index = values.failures.firstIndex(of: now) { values.failures.remove(at: index) }
                }
            }
        }
        let digest = SHA256.hash(utf8: fields["key"])
        var found: (app: AppID, name: String)?
        if let app = try? AppID(fields["app"].trimmingPrefix(" ").description) {
            for key in try await self.reader.adminKeys(of: app) where ConstantTime.equals(key.sha256, digest) {
                found = (app, key.name)
            }
        }
        guard let found else {
            isRefused = true
            throw ConsoleFailure(
                .forbidden,
                "That key is not valid",
                "The app has no such key of the role admin. A new one is made by apus key create --role admin."
            )
        }
        let secret = Base64URL.encode(SecureRandom.bytes(32))
        let session = Session(
            app: found.app,
            key: found.name,
            keySHA256: digest,
            formToken: Base64URL.encode(SecureRandom.bytes(24)),
            beganAt: now,
            usedAt: now,
        )
        try await self.actions.installation.streams.audit.record(
            AuditEntry(
                "console.sign_in",
                of: found.name,
                app: found.app.text,
                by: Operator("key \(found.name)", through: .console)
            )
        )
        self.state.values.withLock { $0.sessions.begin(session, secret: secret) }
        let next = fields["next"]
        // A path of ours only: "//host" is another site.
        let isOwn =
            next.hasPrefix("/") && !next.hasPrefix("//") && !next.contains("\\")
            && ConsolePath(next.prefix { $0 != "?" }) != nil
        var response = Self.redirect(to: isOwn ? next : "/")
        response.headers[.setCookie] = self.cookie(secret, seconds: SessionTable.lifetimeMilliseconds / 1_000)
        return response
    }

    private func cookie(_ secret: String, seconds: Int64) -> String {
        "\(Self.cookieName)=\(secret); Path=/; Max-Age=\(seconds); HttpOnly; SameSite=Strict"
            + (self.access.isSecure ? "; Secure" : "")
    }

    // MARK: Answers

    private func document(
        _ page: Page,
        _ viewer: Viewer,
        _ path: ConsolePath,
        _ query: FormFields,
        _ target: String,
        notice: Layout.Notice?,
        status: HTTPResponse.Status = .ok,
    ) -> Response {
        let named = path.app ?? (try? AppID(query["app"]))
        let first = viewer.session?.app ?? viewer.apps.first.flatMap { try? AppID($0) }
        let app = named.flatMap { viewer.mayRead($0.text) ? $0 : nil } ?? first
        let layout = Layout(viewer: viewer, app: app, target: target)
        return Self.html(layout.document(page, notice: notice), status)
    }

    private func failure(_ failure: ConsoleFailure, _ request: Request, _ target: String) async -> Response {
        let viewer = (try? await self.viewer(request)) ?? Viewer(session: nil, apps: [])
        let page = Page(failure.title)
        let notice = Layout.Notice(isError: true, text: failure.detail)
        return self.document(page, viewer, .overview, FormFields(), target, notice: notice, status: failure.status)
    }

    /// Returns what an act of this session has done, when the page's address refers to it. The words themselves are not in the address: a
    /// link of somebody else's could put any there.
    private static func notice(_ query: FormFields, _ viewer: Viewer) -> Layout.Notice? {
        let notice = viewer.session?.notices.first { "\($0.number)" == query["done"] }
        return notice.map { Layout.Notice(isError: false, text: $0.words) }
    }

    /// Leads to the page that says what was done.
    private func redirect(to path: ConsolePath, saying words: String, _ request: Request) -> Response {
        let number = Self.secret(of: request).flatMap { secret in
            self.state.values.withLock { $0.sessions.note(words, in: secret) }
        }
        return Self.redirect(to: path.text + (number.map { "?done=\($0)" } ?? ""))
    }

    private static func html(_ document: HTML, _ status: HTTPResponse.Status) -> Response {
        Response(
            status: status,
            headers: [.contentType: "text/html; charset=utf-8"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: document.description))
        )
    }

    private static func redirect(to place: String) -> Response {
        Response(status: .seeOther, headers: [.location: place])
    }

    private static func asset(_ name: String) throws -> Response {
        let (type, bytes): (String, [UInt8])
        switch name {
        case "console.css": (type, bytes) = ("text/css; charset=utf-8", EmbeddedText.consoleStyle)
        case "console.js": (type, bytes) = ("text/javascript; charset=utf-8", EmbeddedText.consoleScript)
        case "icon.svg": (type, bytes) = ("image/svg+xml", EmbeddedText.consoleIcon)
        default: throw ConsoleFailure.missing
        }
        return Response(
            status: .ok,
            headers: [.contentType: type],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        )
    }

    /// The headers of every answer: no content of others, no frames, nothing that is kept.
    static func headers(isSecure: Bool) -> [(HTTPField.Name, String)] {
        var pairs = [
            (
                "content-security-policy",
                "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
                    + "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
            ),
            ("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"), ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin"),
            ("permissions-policy", "camera=(), geolocation=(), microphone=()"), ("x-frame-options", "DENY"),
        ]
        if isSecure { pairs.append(("strict-transport-security", "max-age=31536000")) }
        return pairs.compactMap { name, value in HTTPField.Name(name).map { ($0, value) } }
    }
}
