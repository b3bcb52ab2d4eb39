internal import ApusMetrics
internal import ApusNetwork
internal import ApusService
internal import ApusTLS
internal import FoundationEssentials
internal import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization

/// Listens for devices and backends. When the service stops, connections end with their last answer.
struct APIServer: Service {
    let settings: RegistrationSettings
    let responder: APIResponder
    /// The current TLS context; nil for plain HTTP.
    let tls: (@Sendable () -> TLSContext)?
    let eventLoopGroup: any EventLoopGroup
    let logger: Logger
    /// The flag that is set while the server listens.
    let isListening: ListeningFlag

    func run() async throws {
        defer {
            self.isListening.clear()
            if let file = self.settings.portFile { try? FileManager.default.removeItem(atPath: file) }
        }
        if let loop = self.eventLoopGroup.any() as? any VirtualNetworkLoop { return try await self.run(on: loop) }
        let connections = self.connectionsMax()
        // As large a share as the settings say, of those that fit.
        let perAddress = self.settings.connectionsPerAddress.map { most in
            max(1, min(most, most * connections / self.settings.connectionsMax))
        }
        let application = Application(
            responder: self.responder,
            server: HTTPServerBuilder { responder in self.channel(perAddress: perAddress, responder) },
            configuration: ApplicationConfiguration(
                address: .hostname(self.settings.listen.host, port: self.settings.listen.port),
                availableConnectionsDelegate: MaximumAvailableConnections(
                    connections,
                    logger: self.logger,
                ),
            ),
            onServerRunning: { channel in self.announce(channel) },
            eventLoopGroupProvider: .shared(self.eventLoopGroup),
            logger: self.logger,
        )
        do {
            try await application.run()
        } catch {
            throw ListenError(error, at: self.settings.listen, key: "registration.listen") ?? error
        }
    }

    /// Serves the connections of a virtual network, where there are no sockets that Hummingbird could listen at.
    private func run(on loop: any VirtualNetworkLoop) async throws {
        let (responder, logger) = (self.responder, self.logger)
        let child = self.channel { request, writer, channel in
            let source = ApplicationRequestContextSource(channel: channel, logger: logger)
            let response = try await responder.respond(to: request, context: APIContext(source: source))
            try await writer.write(response: response.head, body: response.body)
        }
        let (connections, opened) = AsyncStream.makeStream(of: APIListener.Value.self)
        let listening = try await loop.listen(at: self.settings.listen.port) { channel in
            child.setup(channel: channel, logger: logger).map { _ = opened.yield($0) }
        }.get()
        self.announce(listening)
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                for await connection in connections {
                    group.addTask { await child.handle(value: connection, logger: logger) }
                }
            }
        } onGracefulShutdown: {
            listening.close(promise: nil)
            // Connections that are being opened come before: none may be dropped without being served.
            loop.scheduleTask(in: .seconds(1)) { opened.finish() }
        }
    }

    /// - Parameter perAddress: the maximum of open connections of one client address; nil for no limit.
    private func channel(perAddress: Int? = nil, _ responder: @escaping HTTPChannelHandler.Responder) -> APIListener {
        let (timeout, idle) = (TimeAmount(self.settings.requestTimeout), TimeAmount(self.settings.idleTimeout))
        // Hummingbird closes also connections whose request pauses for as long.
        let pauseMax = max(timeout, TimeAmount(APILimits.importPause))
        let (metrics, shared, anybody) = (self.responder.metrics, self.responder.shared, self.responder.memory.anybody)
        var configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [
                RequestGuard(
                    requestTimeout: timeout,
                    idleTimeout: idle < pauseMax ? idle : nil,
                    anybody: anybody,
                    metrics: metrics,
                    shared: shared,
                )
            ],
            idleTimeout: max(idle, pauseMax),
        )
        configuration.httpDecoder.maxHeaderFieldSize = APILimits.headerFieldBytesMax
        configuration.httpDecoder.maxHeaderListSize = APILimits.headerBytesMax
        configuration.httpDecoder.maxHeaderFieldCount = APILimits.headerFieldsMax
        return APIListener(
            base: HTTP1Channel(responder: responder, configuration: configuration),
            tls: self.tls,
            addresses: perAddress.map { AddressCounts(most: $0) },
            refused: { shared.add(to: metrics.connectionsRefused) },
        )
    }

    /// Returns the maximum of open connections: that of the settings, or as many as the limit of open files leaves room for.
    private func connectionsMax() -> Int {
        let wanted = self.settings.connectionsMax
        guard let limit = OpenFileLimit.current else { return wanted }
        let loops = Array(self.eventLoopGroup.makeIterator()).count
        let connections = OpenFileLimit.connections(wanted, limit: limit, eventLoops: loops)
        if connections < wanted {
            self.logger.warning(
                "there are fewer connections than registration.connections says: raise the limit of open files, or lower the setting",
                metadata: [
                    "setting": .stringConvertible(wanted), "open_files": .stringConvertible(limit),
                    "connections": .stringConvertible(connections),
                ],
            )
        }
        return connections
    }

    /// Reports the port, which the system may have chosen, to the log and to the port file.
    private func announce(_ channel: any Channel) {
        let port = channel.localAddress?.port ?? 0
        self.logger.notice(
            "listening for devices",
            metadata: [
                "host": "\(self.settings.listen.host)", "port": .stringConvertible(port),
                "scheme": self.tls == nil ? "http" : "https",
            ],
        )
        if let file = self.settings.portFile {
            do {
                try Data("\(port)\n".utf8).write(to: URL(filePath: file), options: .atomic)
            } catch {
                self.logger.error(
                    "the port file cannot be written",
                    metadata: ["file": "\(file)", "error": "\(SystemErrorText.words(of: error))"]
                )
            }
        }
        self.isListening.set()
    }
}

/// Checks for `/readyz` that the listener is up.
final class ListeningFlag: Sendable {
    private let value = Atomic(false)

    /// The text in `/readyz`.
    var check: CheckResult {
        self.value.load(ordering: .relaxed) ? .ok() : .failing("The HTTP API does not listen yet.")
    }

    func set() { self.value.store(true, ordering: .relaxed) }

    func clear() { self.value.store(false, ordering: .relaxed) }
}
