import ApusTLS
import NIOCore

/// Two engines and what travels between them, without a socket.
final class EnginePair {
    var client: TLSEngine
    var server: TLSEngine
    var clientPlaintext = ByteBuffer()
    var serverPlaintext = ByteBuffer()
    /// Ciphertext bytes that went to the server, and to the client.
    private(set) var bytesToServer = 0
    private(set) var bytesToClient = 0

    init(client: TLSContext, server: TLSContext, serverName: String = "localhost") throws {
        self.client = try TLSEngine(client: client, serverName: serverName)
        self.server = try TLSEngine(server: server)
    }

    /// A pair that trusts each other, after its handshake.
    static func open(alpn: [String] = ["h2"]) throws -> EnginePair {
        let authority = try TestCertificates.authority()
        let pair = try EnginePair(
            client: .client(trust: .pem(authority.certificatePEM), alpn: alpn),
            server: .server(identity: authority.issue(TestCertificates.profile()), alpn: alpn),
        )
        try pair.shakeHands()
        return pair
    }

    func shakeHands() throws {
        try self.client.start()
        while try self.carryToServer() + self.carryToClient() > 0 {}
    }

    /// Errors of both ends of a handshake that must fail.
    func refusals() -> (client: TLSError?, server: TLSError?) {
        var errors: (client: TLSError?, server: TLSError?) = (nil, nil)
        do { try self.client.start() } catch { errors.client = error }
        var moved = true
        while moved {
            moved = false
            do { moved = try self.carryToServer() > 0 } catch {
                errors.server = error as? TLSError
                moved = true
            }
            do { moved = try self.carryToClient() > 0 || moved } catch {
                errors.client = error as? TLSError
                moved = true
            }
        }
        return errors
    }

    /// In pieces of at most `piece` bytes; the number of bytes.
    @discardableResult
    func carryToServer(piece: Int = .max) throws -> Int {
        guard var bytes = self.client.takeCiphertext() else { return 0 }
        let count = bytes.readableBytes
        self.bytesToServer += count
        while let part = bytes.readSlice(length: min(piece, bytes.readableBytes)), part.readableBytes > 0 {
            try self.server.receive(part, into: &self.serverPlaintext)
        }
        return count
    }

    /// In pieces of at most `piece` bytes; the number of bytes.
    @discardableResult
    func carryToClient(piece: Int = .max) throws -> Int {
        guard var bytes = self.server.takeCiphertext() else { return 0 }
        let count = bytes.readableBytes
        self.bytesToClient += count
        while let part = bytes.readSlice(length: min(piece, bytes.readableBytes)), part.readableBytes > 0 {
            try self.client.receive(part, into: &self.clientPlaintext)
        }
        return count
    }
}
