import ApusCore
import ApusHTTP2
import ApusTLS
import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// Serves toys: answers by the name that a request is for, and records its requests.
final class ToyServer: Sendable {
    private struct State {
        var taken: [String: [String]] = [:]
        var refusals: [String: Int] = [:]
    }

    let authorityPEM: String
    private let channel = Mutex<(any Channel)?>(nil)
    private let state = Mutex(State())

    private init(authorityPEM: String) { self.authorityPEM = authorityPEM }

    static func start(on group: any EventLoopGroup) async throws -> ToyServer {
        let now = UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))
        let authority = try CertificateAuthority(name: "Toy root", validity: CertificateValidity(from: now))
        let identity = try authority.issue(
            CertificateProfile(
                .server,
                commonName: "localhost",
                dnsNames: ["localhost"],
                ipAddresses: ["127.0.0.1"],
                validity: CertificateValidity(from: now),
            )
        )
        let tls = try TLSContext.server(identity: identity, alpn: ["h2"])
        let server = ToyServer(authorityPEM: authority.certificatePEM)
        let channel = try await ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try HTTP2ServerHandler(
                        configuration: HTTP2ServerConfiguration(),
                        delegate: ToyConnection(server),
                    )
                    try channel.pipeline.syncOperations.addHandler(TLSHandler(server: tls))
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        server.channel.withLock { $0 = channel }
        return server
    }

    var url: String { "https://127.0.0.1:\(self.channel.withLock { $0?.localAddress?.port } ?? 0)" }

    /// The titles that a toy took.
    func taken(by name: String) -> [String] { self.state.withLock { $0.taken[name] ?? [] } }

    /// The number of times that a toy was unavailable.
    func refusals(of name: String) -> Int { self.state.withLock { $0.refusals[name] ?? 0 } }

    /// A toy called "broken" is gone, one called "busy" is to be had at the third time of asking.
    fileprivate func status(_ body: [UInt8]) -> Int {
        guard let json = try? JSONValue(parsing: body, bytesMax: 4_096), let name = json["to"]?.string else {
            return 400
        }
        return self.state.withLock { state in
            if name == "broken" || name == "busy" && state.refusals[name, default: 0] < 2 {
                state.refusals[name, default: 0] += 1
                return name == "broken" ? 410 : 503
            }
            state.taken[name, default: []].append(json["title"]?.string ?? "")
            return 200
        }
    }

    func stop() async throws { try await self.channel.withLock { $0 }?.close() }
}

private final class ToyConnection: HTTP2ServerDelegate {
    private let server: ToyServer

    init(_ server: ToyServer) { self.server = server }

    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent) {
        guard case .requested(let request) = event else { return }
        handler.respond(to: request.streamID, HTTP2Response(status: self.server.status(request.body), body: []))
    }
}
