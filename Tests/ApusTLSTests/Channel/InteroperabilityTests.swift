import ApusTLS
import ApusTestKit
import Foundation
import NIOCore
import NIOPosix
import Testing

/// Against the `openssl` command, as an independent peer.
@Suite(.timeLimit(.minutes(1))) struct InteroperabilityTests {
    private let folder: TemporaryFolder
    private let root: CertificateAuthority
    private let identity: TLSIdentity
    private let serverFiles: [String]
    private let rootPath: String

    init() throws {
        self.folder = try TemporaryFolder()
        self.root = try TestCertificates.authority()
        self.identity = try self.root.issue(TestCertificates.profile())
        let certificate = try self.folder.write("server.pem", self.identity.certificateChainPEM)
        let key = try self.folder.write("server.key", self.identity.privateKeyPEM)
        self.serverFiles = ["-cert", certificate, "-key", key]
        self.rootPath = try self.folder.write("root.pem", self.root.certificatePEM)
    }

    /// `openssl s_server`, one connection, each line answered backwards.
    private final class Server {
        let process: Process
        private(set) var port = 0

        init(_ arguments: [String]) throws {
            self.process = OpenSSLTool.process(
                ["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-rev"] + arguments
            )
            let output = Pipe()
            self.process.standardInput = FileHandle.nullDevice
            self.process.standardOutput = output
            self.process.standardError = FileHandle.nullDevice
            try self.process.run()
            var text = ""
            while !text.contains("ACCEPT") || !text.hasSuffix("\n") {
                let data = output.fileHandleForReading.availableData
                guard !data.isEmpty else { break }
                text += String(decoding: data, as: UTF8.self)
            }
            let line = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT") }
            self.port = line?.split(separator: ":").last.flatMap { Int($0) } ?? 0
        }

        deinit {
            self.process.terminate()
            self.process.waitUntilExit()
        }
    }

    private func clientContext(
        certificate: TLSIdentity? = nil,
        alpn: [String] = ["h2"],
    ) throws -> TLSContext {
        try .client(trust: .file(self.rootPath), certificate: certificate, alpn: alpn)
    }

    @Test(arguments: [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
    func weTalkToItsServer(option: String, version: String) async throws {
        let server = try Server(self.serverFiles + [option, "-alpn", "h2"])
        var client = try await TestPeer.connect(port: server.port, context: self.clientContext())
        let handshake = try #require(await client.handshake())
        #expect(handshake.version == version)
        #expect(handshake.alpn == "h2")
        let line = String(repeating: "abcdefghij", count: 100)
        try await client.write(line + "\n")
        #expect(String(buffer: await client.bytes(1_001)) == String(line.reversed()) + "\n")
        try await client.channel.close()
    }

    @Test func weShowItsServerACertificate() async throws {
        let server = try Server(self.serverFiles + ["-Verify", "2", "-verify_return_error", "-CAfile", self.rootPath])
        let certificate = try self.root.issue(TestCertificates.profile(.client, userID: "com.example.app"))
        let context = try self.clientContext(certificate: certificate, alpn: [])
        var client = try await TestPeer.connect(port: server.port, context: context)
        #expect(await client.handshake() != nil)
        try await client.write("abc\n")
        #expect(String(buffer: await client.bytes(4)) == "cba\n")
        try await client.channel.close()
    }

    @Test func itsServerRefusesUsWithoutACertificate() async throws {
        let server = try Server(self.serverFiles + ["-Verify", "2", "-verify_return_error", "-CAfile", self.rootPath])
        var client = try await TestPeer.connect(port: server.port, context: self.clientContext(alpn: []))
        // In TLS 1.3 the client is through before the server has looked.
        #expect(await client.handshake() != nil)
        #expect(await client.failure()?.code == .peerAlert)
        #expect(await client.isInactive())
    }

    @Test func aServerOfTLS11IsRefused() async throws {
        let server = try Server(self.serverFiles + ["-tls1_1", "-cipher", "ALL@SECLEVEL=0"])
        var client = try await TestPeer.connect(port: server.port, context: self.clientContext(alpn: []))
        #expect(await client.failure()?.code == .protocolVersionUnsupported)
        #expect(await client.isInactive())
    }

    @Test func aServerWithoutALPNIsRefused() async throws {
        let server = try Server(self.serverFiles)
        var client = try await TestPeer.connect(port: server.port, context: self.clientContext())
        #expect(await client.failure()?.code == .noCommonApplicationProtocol)
        #expect(await client.isInactive())
    }

    /// Runs `openssl s_client` against our echo: what it says and complains of.
    private static func sClient(
        _ port: Int,
        trusting root: String,
        _ arguments: [String],
    ) async throws -> OpenSSLTool.Output {
        let all = [
            "s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-CAfile", root,
            "-verify_return_error", "-verify_hostname", "localhost", "-brief",
        ]
        // A process is waited for on a thread of its own: tests share few.
        return try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try OpenSSLTool.run(all + arguments, input: "hello\n", mayFail: true) }
                )
            }
        }
    }

    @Test(arguments: [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
    func itsClientTalksToUs(option: String, version: String) async throws {
        let context = try TLSContext.server(identity: self.identity, alpn: ["h2"])
        var listener = try await TestListener.start(context: context, echoes: true)
        let (port, rootPath) = (listener.port, self.rootPath)
        async let output = Self.sClient(port, trusting: rootPath, [option, "-alpn", "h2"])
        var server = try #require(await listener.accept())
        let handshake = try #require(await server.handshake())
        #expect(handshake.version == version)
        #expect(handshake.alpn == "h2")
        #expect(handshake.serverName == "localhost")
        #expect(String(buffer: await server.bytes(6)) == "hello\n")
        // It closes cleanly after its input is over.
        #expect(await server.isInactive())
        let said = try await output.errors
        #expect(said.contains("Protocol version: \(version)"))
        #expect(said.contains("Verification: OK"))
        #expect(said.contains("Verified peername: localhost"))
        try await listener.channel.close()
    }

    @Test func aClientOfTLS11IsRefused() async throws {
        let context = try TLSContext.server(identity: self.identity)
        var listener = try await TestListener.start(context: context)
        let (port, rootPath) = (listener.port, self.rootPath)
        async let output = Self.sClient(port, trusting: rootPath, ["-tls1_1", "-cipher", "ALL@SECLEVEL=0"])
        var server = try #require(await listener.accept())
        #expect(await server.failure()?.code == .protocolVersionUnsupported)
        #expect(await server.isInactive())
        #expect(try await output.errors.contains("alert protocol version"))
        try await listener.channel.close()
    }

    @Test func aClientThatOffersAnotherProtocolIsRefused() async throws {
        let context = try TLSContext.server(identity: self.identity, alpn: ["h2"])
        var listener = try await TestListener.start(context: context)
        let (port, rootPath) = (listener.port, self.rootPath)
        async let output = Self.sClient(port, trusting: rootPath, ["-alpn", "http/1.1"])
        var server = try #require(await listener.accept())
        #expect(await server.failure()?.code == .noCommonApplicationProtocol)
        #expect(try await output.errors.contains("no application protocol"))
        try await listener.channel.close()
    }
}
