package import ApusCore
package import ApusInstallation
package import ApusService
internal import ApusStreams
internal import FoundationEssentials
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// Serves the console's pages until a graceful shutdown.
package struct ConsoleServer: Service {
    /// The maximum of open connections.
    static let connectionsMax = 256

    private let installation: Installation
    private let access: ConsoleAccess
    private let listen: ListenAddress
    private let configuration: SettingsSource
    private let portFile: String?
    private let clock: any WallClock
    private let logger: Logger
    private let announce: @Sendable (Int) -> Void

    /// Creates a server.
    ///
    /// - Parameters:
    ///   - configuration: the services' configuration.
    ///   - portFile: the file that the chosen port is written to; nil for none.
    ///   - announce: called with the port once it listens.
    package init(
        _ installation: Installation,
        access: ConsoleAccess,
        listen: ListenAddress,
        configuration: SettingsSource,
        portFile: String?,
        clock: any WallClock,
        logger: Logger,
        announce: @escaping @Sendable (Int) -> Void,
    ) {
        self.installation = installation
        self.access = access
        self.listen = listen
        self.configuration = configuration
        self.portFile = portFile
        self.clock = clock
        self.logger = logger
        self.announce = announce
    }

    /// Runs until a graceful shutdown.
    package func run() async throws {
        let rates = RateSampler(self.installation.streams)
        let responder = ConsoleResponder(
            reader: ConsoleReader(
                installation: self.installation,
                configuration: self.configuration,
                clock: self.clock,
                isOfWhole: self.access.isOpenForReading,
            ),
            actions: ConsoleActions(
                installation: self.installation,
                configuration: self.configuration,
                clock: self.clock,
            ),
            rates: rates,
            access: self.access,
            clock: self.clock,
            state: ConsoleResponder.State(),
        )
        let application = Application(
            responder: responder,
            server: .http1(configuration: .init(idleTimeout: .seconds(60))),
            configuration: ApplicationConfiguration(
                address: .hostname(self.listen.host, port: self.listen.port),
                serverName: nil,
                availableConnectionsDelegate: MaximumAvailableConnections(Self.connectionsMax, logger: self.logger),
            ),
            onServerRunning: { channel in self.report(channel.localAddress?.port ?? 0) },
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup.singleton),
            logger: self.logger,
        )
        defer { if let portFile { try? FileManager.default.removeItem(atPath: portFile) } }
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await cancelWhenGracefulShutdown { await rates.run() } }
                group.addTask { try await application.run() }
                while try await group.next() != nil {}
            }
        } catch {
            throw ListenError(error, at: self.listen, key: "--listen") ?? error
        }
    }

    private func report(_ port: Int) {
        if let portFile { try? Data("\(port)\n".utf8).write(to: URL(filePath: portFile), options: .atomic) }
        self.announce(port)
    }
}
