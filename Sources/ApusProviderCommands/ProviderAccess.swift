internal import ApusCommand
package import ApusCore
internal import ApusHTTP2
internal import ApusProviders
package import ApusService
internal import ApusTLS
internal import ApusTerminal
internal import FoundationEssentials
internal import Logging
internal import NIOCore
internal import NIOPosix

/// Connects commands to an app's providers: with the configuration's credentials, over a connection of their own.
package struct ProviderAccess: Sendable {
    /// The app's settings.
    package let settings: AppSettings
    /// The configuration.
    let source: SettingsSource
    /// The app.
    let app: AppID
    let clock = SystemClock()

    static var eventLoop: any EventLoop { MultiThreadedEventLoopGroup.singleton.next() }
    static var logger: Logger { Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() } }

    /// Reads the configuration.
    package init(app: AppID, configuration source: SettingsSource) throws {
        let common: CommonSettings
        do throws(SettingsError) {
            common = try source.loadCommon()
        } catch {
            throw CommandFailure("\(error)")
        }
        guard let settings = common.apps[app] else {
            let place = source.file ?? "any configuration"
            throw CommandFailure("there is no app \(app) in \(place): name the services' file with --config")
        }
        self.source = source
        self.app = app
        self.settings = settings
    }

    /// Returns the value of `authorization`; nil when the connection authenticates the request.
    static func header(
        _ credential: any ProviderCredential,
        _ eventLoop: any EventLoop,
    ) async throws -> HeaderValue? {
        switch try await credential.grant(on: eventLoop).get() {
        case .usable(let header, _): return header
        case .connection: return nil
        case .unavailable(_, let detail): throw CommandFailure(detail ?? "it is too early for another provider token")
        case .paused(let detail): throw CommandFailure(detail)
        }
    }

    static func read<Value>(_ path: String, _ parse: ([UInt8]) throws -> Value) throws -> Value {
        do {
            return try parse(Array(try Data(contentsOf: URL(filePath: path))))
        } catch {
            throw CommandFailure("\(path) cannot be used: \(SystemErrorText.reason(for: path, error))")
        }
    }

    static func tls(_ caFile: String?, showing identity: TLSIdentity? = nil) throws -> TLSContext {
        do {
            let trust = caFile.map { TLSTrust.file($0) } ?? .system
            return try TLSContext.client(trust: trust, certificate: identity, alpn: ["h2"])
        } catch {
            throw CommandFailure("\(caFile ?? "the system's certificates") cannot be used: \(error)")
        }
    }

    static func connected<Result>(
        _ address: WebAddress,
        _ tls: TLSContext,
        _ eventLoop: any EventLoop,
        _ body: (PlainClient) async throws -> Result,
    ) async throws -> Result {
        let client = try await Self.connect(address, tls, eventLoop)
        defer { client.close() }
        return try await body(client)
    }

    static func connect(
        _ address: WebAddress,
        _ tls: TLSContext,
        _ eventLoop: any EventLoop,
        over other: WebAddress? = nil,
    ) async throws -> PlainClient {
        do {
            return try await PlainClient.connect(to: address, over: other, tls: tls, on: eventLoop)
        } catch {
            throw CommandFailure(ConnectFailure.words(of: error, to: address))
        }
    }
}
