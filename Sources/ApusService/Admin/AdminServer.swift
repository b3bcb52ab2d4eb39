internal import ApusCore
internal import ApusMetrics
internal import FoundationEssentials
internal import HTTPTypes
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// Serves the monitoring endpoints `/metrics`, `/healthz`, `/readyz` and `/startupz`, and the service's own pages, on a port of their own.
///
/// Where clients need certificates, a client without one gets what probes need and no more: Kubernetes' probes have none.
///
/// Sources: the paths are Kubernetes' own (https://kubernetes.io/docs/reference/using-api/health-checks/), the formats
/// Prometheus' (https://prometheus.io/docs/instrumenting/exposition_formats/).
struct AdminServer: Service {
    let programName: String
    let settings: AdminSettings
    let registry: MetricRegistry
    let readiness: Readiness
    let pages: AdminPages
    /// Nil for plain HTTP.
    let tls: AdminTLS?
    let eventLoopGroup: any EventLoopGroup
    let logger: Logger

    func run() async throws {
        let router = Router(context: AdminContext.self, options: .autoGenerateHeadEndpoints)
        router.get("/metrics") { request, context in
            guard await self.isTrusted(context) else { return Self.forbidden }
            let format = ExpositionFormat.negotiated(accept: request.headers[.accept])
            return Self.answer(.ok, await self.registry.exposition(format), type: format.contentType)
        }
        router.get("/healthz") { _, _ in await self.health() }
        router.get("/readyz") { request, context in
            let report = await self.readiness.report()
            let isVerbose = request.uri.queryParameters["verbose"] != nil
            let shown = await self.isTrusted(context) ? report.checks.filter { isVerbose || $0.result != .ok() } : []
            let body = Self.json(report, checks: shown, programName: self.programName)
            return Self.answer(report.isReady ? .ok : .serviceUnavailable, body, type: "application/json")
        }
        router.get("/startupz") { _, _ in
            let phase = self.readiness.phase
            return Self.answer(
                phase == .starting ? .serviceUnavailable : .ok,
                Array("{\"status\":\"\(phase.rawValue)\"}\n".utf8),
                type: "application/json",
            )
        }
        router.get(":page") { _, context in
            guard await self.isTrusted(context) else { return Self.forbidden }
            guard let page = context.parameters.get("page").flatMap({ self.pages.page($0) }) else {
                return Self.answer(.notFound, Array("{\"status\":\"not found\"}\n".utf8), type: "application/json")
            }
            guard let object = await page() else {
                let body = "{\"status\":\"unavailable\",\"detail\":\"Redis does not answer\"}\n"
                return Self.answer(.serviceUnavailable, Array(body.utf8), type: "application/json")
            }
            return Self.answer(.ok, Array("\(JSONValue.object(object).text)\n".utf8), type: "application/json")
        }
        let application = Application(
            router: router,
            server: HTTPServerBuilder { responder in
                AdminListener(base: AdminListener.http(responder), tls: self.tls)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(self.settings.listen.host, port: self.settings.listen.port)
            ),
            onServerRunning: { channel in self.announce(channel) },
            eventLoopGroupProvider: .shared(self.eventLoopGroup),
            logger: self.logger,
        )
        defer {
            if let file = self.settings.portFile { try? FileManager.default.removeItem(atPath: file) }
        }
        do {
            try await application.run()
        } catch {
            throw ListenError(error, at: self.settings.listen, key: "admin.listen") ?? error
        }
    }

    /// Writes the listening port, which the system may have chosen, to the log and to the port file.
    private func announce(_ channel: any Channel) {
        let port = channel.localAddress?.port ?? 0
        self.logger.info(
            "admin endpoints listen",
            metadata: [
                "host": "\(self.settings.listen.host)", "port": .stringConvertible(port),
                "scheme": self.tls == nil ? "http" : "https",
            ]
        )
        guard let file = self.settings.portFile else { return }
        do {
            try Data("\(port)\n".utf8).write(to: URL(filePath: file), options: .atomic)
        } catch {
            self.logger.error(
                "the port file cannot be written",
                metadata: ["file": "\(file)", "error": "\(SystemErrorText.words(of: error))"]
            )
        }
    }

    /// Returns true when the client of a connection may read everything.
    private func isTrusted(_ context: AdminContext) async -> Bool {
        guard self.settings.tls?.clientCAFile != nil else { return true }
        let handler = try? await context.channel.pipeline.handler(type: ClientCertificateHandler.self).get()
        return handler?.hasCertificate ?? false
    }

    private static var forbidden: Response {
        let body =
            "{\"status\":\"forbidden\",\"detail\":\"a client certificate of admin.tls.client_ca_file is needed\"}\n"
        return self.answer(.forbidden, Array(body.utf8), type: "application/json")
    }

    /// Answers `/healthz`: 200 when every event loop responds.
    private func health() async -> Response {
        let stuck = await EventLoopHealth(eventLoopGroup: self.eventLoopGroup).stuckCount()
        let body = stuck == 0 ? "{\"status\":\"ok\"}\n" : "{\"status\":\"stuck\",\"event_loops\":\(stuck)}\n"
        return Self.answer(stuck == 0 ? .ok : .serviceUnavailable, Array(body.utf8), type: "application/json")
    }

    private static func answer(_ status: HTTPResponse.Status, _ body: [UInt8], type: String) -> Response {
        Response(
            status: status,
            headers: [.contentType: type, .cacheControl: "no-store", .contentLength: "\(body.count)"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)),
        )
    }

    /// Renders the status and some of the checks as JSON.
    private static func json(
        _ report: Readiness.Report,
        checks: [Readiness.Report.Check],
        programName: String,
    ) -> [UInt8] {
        var text: [UInt8] = []
        let status = report.isReady ? "ready" : report.phase == .serving ? "unready" : report.phase.rawValue
        text += "{\"status\":\"\(status)\",\"service\":".utf8
        JSONText.append(programName, to: &text)
        text += ",\"checks\":[".utf8
        for (place, check) in checks.enumerated() {
            if place > 0 { text.append(0x2c) }
            text += "{\"name\":".utf8
            JSONText.append(check.name, to: &text)
            text += ",\"ok\":\(check.result.isOK)".utf8
            let detail: String? =
                switch check.result {
                case .ok(let detail): detail
                case .failing(let reason): reason
                }
            if let detail {
                text += ",\"detail\":".utf8
                JSONText.append(detail, to: &text)
            }
            text.append(0x7d)
        }
        text += "]}\n".utf8
        return text
    }
}

/// Holds a request's connection.
private struct AdminContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }
}
