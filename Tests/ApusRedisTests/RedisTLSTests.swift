import ApusCore
import ApusRedis
import ApusTLS
import ApusTestKit
import Foundation
import NIOCore
import Testing

@Suite("Redis over TLS")
struct RedisTLSTests {
    /// Returns options of a server with a certificate of its own.
    static func options(
        _ purpose: CertificateProfile.Purpose = .server,
        addresses: [String] = ["127.0.0.1"],
    ) throws -> RedisServer.Options {
        let validity = CertificateValidity(days: 1, from: Self.now)
        let authority = try CertificateAuthority(name: "Apus test", validity: validity)
        let identity = try authority.issue(
            CertificateProfile(
                purpose,
                commonName: "redis",
                dnsNames: ["redis.test"],
                ipAddresses: addresses,
                validity: validity
            )
        )
        return RedisServer.Options(
            tls: RedisServer.Options.TLS(
                certificatePEM: identity.certificateChainPEM,
                privateKeyPEM: identity.privateKeyPEM,
                certificateAuthorityPEM: authority.certificatePEM,
            )
        )
    }

    private static var now: UnixMilliseconds { UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000)) }

    private let tag = HashTag("q1")

    @Test("commands travel encrypted, large ones too")
    func roundTrip() async throws {
        try await withClient(Self.options(), url: \.tlsURL) { _, client in
            let value = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            _ = try await client.send(RedisCommand("SET", "{q1}k", .bytes(value)), on: self.tag)
            #expect(try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag).root.bytes == value)
        }
    }

    @Test("a server is found again over TLS after a crash")
    func crash() async throws {
        try await withClient(Self.options(), url: \.tlsURL) { server, client in
            _ = try await client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag)
            let eventLoop = client.eventLoopGroup.any()
            _ = try await client.connection(for: self.tag, on: eventLoop).get()
            server.suspend()
            let pending = client.send(RedisCommand("INCR", "{q1}n"), on: self.tag, eventLoop: eventLoop)
            // Sent before the server is gone.
            _ = try await client.connection(for: self.tag, on: eventLoop).get()
            await server.kill()
            await expectError(.disconnected) { _ = try await pending.get() }
            try await server.restart()
            let options = RedisClient.Options(isIdempotent: true, patience: .seconds(60))
            #expect(try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: options).root.isNull)
        }
    }

    @Test("a certificate for another address is refused, unless its name is asked for")
    func otherName() async throws {
        try await RedisServer.with(Self.options(addresses: ["192.0.2.1"])) { server in
            let error = await expectError(.tls) { _ = try await connect(server.tlsURL) }
            #expect(error?.message.contains("it is for another name; connect by a name that it has") == true)
            let connection = try await connect(server.tlsURL + "&server_name=redis.test")
            #expect(try await connection.send(RedisCommand("PING")).get().root.string == "PONG")
            try await connection.close().get()
        }
    }

    @Test("an unknown authority is refused")
    func unknownAuthority() async throws {
        try await RedisServer.with(Self.options()) { server in
            let other = try CertificateAuthority(name: "Other", validity: CertificateValidity(days: 1, from: Self.now))
            let path = "\(server.directory)/other.pem"
            try other.certificatePEM.write(toFile: path, atomically: true, encoding: .utf8)
            await expectError(.tls) {
                _ = try await connect("rediss://127.0.0.1:\(server.tlsPort ?? 0)?ca=\(path)")
            }
            await expectError(.tls) { _ = try await connect("rediss://127.0.0.1:\(server.tlsPort ?? 0)?ca=/nowhere") }
        }
    }

    @Test("a server that speaks no TLS is refused")
    func plainServer() async throws {
        try await RedisServer.with(Self.options()) { server in
            await expectError(.notConnected) {
                let url = "rediss://127.0.0.1:\(server.port)?ca=\(server.directory)/ca.pem"
                _ = try await connect(url) { $0.connectTimeout = .milliseconds(500) }
            }
        }
    }
}
