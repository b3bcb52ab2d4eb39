import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import NIOCore
import NIOPosix
import Testing

private let nghttpd = "/usr/sbin/nghttpd"

/// nghttp2's own server, which answers 200 to a POST where it has a file, and 404 elsewhere.
private struct ForeignServer {
    let process: WatchedProcess
    let port: Int
    let caFile: String

    static func start(accepting tokens: [String]) async throws -> ForeignServer {
        let directory = try TemporaryDirectory.make("apus-nghttpd")
        let validity = CertificateValidity(from: SystemClock().now())
        let authority = try CertificateAuthority(name: "Foreign root", validity: validity)
        let identity = try authority.issue(
            CertificateProfile(.server, commonName: "Apple, say", ipAddresses: ["127.0.0.1"], validity: validity)
        )
        let files = [
            "ca.pem": authority.certificatePEM, "chain.pem": identity.certificateChainPEM,
            "key.pem": identity.privateKeyPEM,
        ]
        for (name, text) in files { try text.write(toFile: "\(directory)/\(name)", atomically: true, encoding: .utf8) }
        let devices = "\(directory)/htdocs/3/device"
        try FileManager.default.createDirectory(atPath: devices, withIntermediateDirectories: true)
        for token in tokens { try Data().write(to: URL(filePath: "\(devices)/\(token)")) }
        let port = try FreePort.find()
        let process = try await WatchedProcess(
            [
                nghttpd, "--address=127.0.0.1", "--htdocs=\(directory)/htdocs", "\(port)", "\(directory)/key.pem",
                "\(directory)/chain.pem",
            ],
            directory: directory,
        )
        let server = ForeignServer(process: process, port: port, caFile: "\(directory)/ca.pem")
        do {
            try await eventually("nghttpd listens") { await server.listens }
        } catch {
            await server.stop()
            throw error
        }
        return server
    }

    private var listens: Bool {
        get async {
            let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await bootstrap.connect(host: "127.0.0.1", port: self.port).get() else {
                return false
            }
            try? await channel.close()
            return true
        }
    }

    func stop() async { await self.process.end(keepingDirectory: false) }
}

@Suite struct ForeignServerTests {
    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: nghttpd), "needs the Debian package nghttp2-server")
    )
    func `A foreign HTTP/2 server accepts every notification, and its refusal is an outcome`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(400).filter { $0.provider == .apns }
            #expect(devices.count == 200)
            let foreign = try await ForeignServer.start(accepting: devices.dropFirst().map(\.token))
            do {
                let apple = ServiceConfiguration.AppleReplacement(port: foreign.port, caFile: foreign.caFile)
                let dispatcher = try await fleet.startDispatcher(apple: apple)
                let feedback = try await fleet.startFeedback()
                try await fleet.send(.everyone([.apns]), id: "foreign")
                let ledger = try await fleet.completion(of: "foreign")
                #expect(ledger.planned == 200)
                #expect(ledger.total(.accepted) == 199)
                #expect(ledger.total(.rejected) == 1)
                #expect(ledger.total(.open) == 0)
                #expect(fleet.simulator.ledger.snapshot.accepted.isEmpty, "the simulator had no part in it")
                try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
                try await dispatcher.terminate()
                try await feedback.terminate()
            } catch {
                await foreign.stop()
                throw error
            }
            await foreign.stop()
        }
    }
}
