import ApusBuiltInProviders
import ApusConsole
import ApusCore
import ApusInstallation
import ApusService
import ApusTerminal
import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals

/// The web console (`apus-console`).
@main
struct ApusConsoleProgram: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus-console",
        abstract: "Serve web pages to run Apus by.",
        discussion: """
            On a loopback address the pages can be read by everybody on this machine, and changed by who signs in with an API key of \
            the role admin (apus key create --role admin). From other machines it is reached through a proxy with TLS, whose address \
            --public-url names; then nothing can be read without signing in.

            Redis and its user are read where the services read them, or named by --redis or a context. With the services' \
            configuration the pages show credentials and render previews, too. It ends with SIGTERM or SIGINT.
            """,
        version: "0.1.0",
    )

    @OptionGroup var redis: RedisOptions
    @Option(help: ArgumentHelp("The address to listen at; port 0 takes any free port.", valueName: "host:port"))
    var listen = "127.0.0.1:8190"
    @Option(help: ArgumentHelp("The address under which browsers reach it.", valueName: "https://host"))
    var publicURL: String?
    @Option(help: "A file that the port is written to, and that is removed at the end.")
    var portFile: String?

    func validate() throws { _ = try self.access() }

    private func address() throws -> ListenAddress {
        guard let address = ListenAddress(self.listen) else {
            throw ValidationError("--listen must be host:port, such as 127.0.0.1:8190")
        }
        return address
    }

    private func access() throws -> ConsoleAccess {
        do throws(ConsoleAccess.Mistake) {
            return try ConsoleAccess(listen: self.addressOrLoopback(), publicURL: self.publicURL)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    private func addressOrLoopback() -> ListenAddress {
        (try? self.address()) ?? ListenAddress(host: "127.0.0.1", port: 0)
    }

    /// Installs the built-in providers before the program runs.
    static func main() async {
        BuiltInProviders.install()
        await self.main(nil)
    }

    func run() async throws {
        let (address, access) = (try self.address(), try self.access())
        OpenFileLimit.raise()
        let configuration = try self.redis.settings()
        try await RedisAccess.withInstallation(self.redis) { installation in
            let logger = Logger(label: "apus-console") { _ in SwiftLogNoOpLogHandler() }
            let server = ConsoleServer(
                installation,
                access: access,
                listen: address,
                configuration: configuration,
                portFile: self.portFile,
                clock: SystemClock(),
                logger: logger,
            ) { port in
                Console.message("apus-console listens at http://\(address.host):\(port)/")
            }
            let group = ServiceGroup(
                configuration: .init(
                    services: [.init(service: server)],
                    gracefulShutdownSignals: [.sigterm, .sigint],
                    logger: logger.forServiceGroup,
                )
            )
            do {
                try await group.run()
            } catch let error as ListenError {
                throw CommandFailure("\(error)")
            }
        }
    }
}
