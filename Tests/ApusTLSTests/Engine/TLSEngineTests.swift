import ApusCore
import ApusTLS
import NIOCore
import Testing

@Suite struct TLSEngineTests {
    @Test func aHandshakeReadsLikeThis() throws {
        let authority = try TestCertificates.authority()
        let pair = try EnginePair(
            client: .client(trust: .pem(authority.certificatePEM), alpn: ["h2", "http/1.1"]),
            server: .server(identity: authority.issue(TestCertificates.profile()), alpn: ["http/1.1", "h2"]),
        )
        #expect(pair.client.takeCiphertext() == nil)
        try pair.client.start()
        #expect(pair.client.state == .handshaking)

        #expect(try pair.carryToServer() > 0)
        #expect(pair.server.state == .handshaking)
        #expect(try pair.carryToClient() > 0)
        #expect(pair.client.state == .open)
        #expect(try pair.carryToServer() > 0)
        #expect(pair.server.state == .open)
        // No session tickets: nothing is left to say.
        #expect(try pair.carryToClient() == 0)

        let clients = pair.client.handshake
        let seen = try #require(clients)
        #expect(seen.version == "TLSv1.3")
        // The server's order decides.
        #expect(seen.alpn == "http/1.1")
        #expect(seen.peerCertificate?.commonName == "localhost")
        let servers = pair.server.handshake
        let shown = try #require(servers)
        #expect(shown.version == "TLSv1.3")
        #expect(shown.alpn == "http/1.1")
        #expect(shown.serverName == "localhost")
        #expect(shown.peerCertificate == nil)
    }

    @Test func anAddressIsVerifiedButNotAskedFor() throws {
        let authority = try TestCertificates.authority()
        for address in ["127.0.0.1", "::1"] {
            let profile = TestCertificates.profile(dnsNames: [], ipAddresses: [address])
            let pair = try EnginePair(
                client: .client(trust: .pem(authority.certificatePEM)),
                server: .server(identity: authority.issue(profile)),
                serverName: address,
            )
            try pair.shakeHands()
            #expect(pair.client.state == .open)
            #expect(pair.server.handshake?.serverName == nil)
            #expect(pair.client.handshake?.alpn == nil)
        }
    }

    @Test func aTrailingDotIsTheSameName() throws {
        let authority = try TestCertificates.authority()
        let pair = try EnginePair(
            client: .client(trust: .pem(authority.certificatePEM)),
            server: .server(identity: authority.issue(TestCertificates.profile())),
            serverName: "localhost.",
        )
        try pair.shakeHands()
        #expect(pair.server.handshake?.serverName == "localhost")
    }

    @Test(arguments: ["", ".", ".example.com", "a b", "host\0name", "exämple.com", "*.example.com", "a/b"])
    func whatIsNoNameIsRefused(name: String) throws {
        let context = try TLSContext.client(trust: .system)
        #expect(KeyTests.code { _ = try TLSEngine(client: context, serverName: name) } == .invalidServerName)
    }

    @Test func aNameHasALimit() throws {
        let context = try TLSContext.client(trust: .system)
        let longest = String(repeating: "a.", count: 126) + "b"
        #expect(KeyTests.code { _ = try TLSEngine(client: context, serverName: longest) } == nil)
        #expect(KeyTests.code { _ = try TLSEngine(client: context, serverName: longest + "c") } == .invalidServerName)
    }

    @Test func muchTravelsBothWaysInFullRecords() throws {
        let pair = try EnginePair.open()
        let count = 5 * 1_024 * 1_024 + 1
        let up = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let down = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 13) })
        let before = (pair.bytesToServer, pair.bytesToClient)

        try pair.client.write(up)
        try pair.server.write(down)
        try pair.carryToServer(piece: 70_001)
        try pair.carryToClient()

        #expect(pair.serverPlaintext == up)
        #expect(pair.clientPlaintext == down)
        // A TLS 1.3 record adds a header of 5, a content type and a tag of 16 bytes.
        let records = count / TLSEngine.recordBytesMax + 1
        #expect(pair.bytesToServer - before.0 == count + records * 22)
        #expect(pair.bytesToClient - before.1 == count + records * 22)
    }

    @Test func everythingMayComeByteByByte() throws {
        let authority = try TestCertificates.authority()
        let pair = try EnginePair(
            client: .client(trust: .pem(authority.certificatePEM), alpn: ["h2"]),
            server: .server(identity: authority.issue(TestCertificates.profile()), alpn: ["h2"]),
        )
        try pair.client.start()
        while try pair.carryToServer(piece: 1) + pair.carryToClient(piece: 1) > 0 {}
        #expect(pair.client.state == .open)
        #expect(pair.server.state == .open)
        let text = ByteBuffer(repeating: 0x61, count: 20_000)
        try pair.client.write(text)
        try pair.carryToServer(piece: 1)
        #expect(pair.serverPlaintext == text)
        pair.client.closeNotify()
        try pair.carryToServer(piece: 1)
        #expect(pair.server.state == .closedByPeer)
    }

    @Test func plaintextIsAppended() throws {
        let pair = try EnginePair.open()
        for text in ["one ", "two ", "three"] {
            try pair.client.write(ByteBuffer(string: text))
            try pair.carryToServer()
        }
        try pair.client.write(ByteBuffer())
        #expect(pair.client.takeCiphertext() == nil)
        #expect(String(buffer: pair.serverPlaintext) == "one two three")
    }

    @Test func aRecycledBufferIsUsedAgain() throws {
        let pair = try EnginePair.open()
        /// Returns the address of the ciphertext of that many bytes; returns the buffer as its only holder.
        func address(of count: Int) throws -> Int {
            try pair.client.write(ByteBuffer(repeating: 1, count: count))
            guard var sent = pair.client.takeCiphertext() else { return 0 }
            #expect(sent.readableBytes == count + 22)
            let address = sent.withVeryUnsafeMutableBytes { Int(bitPattern: $0.baseAddress) }
            pair.client.recycle(consume sent)
            return address
        }
        let first = try address(of: 10_000)
        let second = try address(of: 5_000)
        #expect(first == second)
    }

    // MARK: Closing

    @Test func aCleanCloseIsSeenAsOne() throws {
        let pair = try EnginePair.open()
        try pair.client.write(ByteBuffer(string: "last words"))
        pair.client.closeNotify()
        pair.client.closeNotify()
        try pair.carryToServer()
        #expect(String(buffer: pair.serverPlaintext) == "last words")
        #expect(pair.server.state == .closedByPeer)
        try pair.server.receivedEnd()
        #expect(KeyTests.code { try pair.client.write(ByteBuffer(string: "more")) } == .closed)

        // The other direction is still open.
        try pair.server.write(ByteBuffer(string: "answer"))
        pair.server.closeNotify()
        try pair.carryToClient()
        #expect(String(buffer: pair.clientPlaintext) == "answer")
        #expect(pair.client.state == .closedByPeer)
    }

    @Test func aCutConnectionIsNotAClose() throws {
        let pair = try EnginePair.open()
        try pair.client.write(ByteBuffer(string: "half of"))
        try pair.carryToServer()
        #expect(KeyTests.code { try pair.server.receivedEnd() } == .closedWithoutCloseNotify)
        #expect(pair.server.state == .failed)
        #expect(KeyTests.code { try pair.server.write(ByteBuffer(string: "x")) } == .closed)
        try pair.server.receivedEnd()
    }

    @Test func aCutHandshakeIsAnError() throws {
        let authority = try TestCertificates.authority()
        let context = try TLSContext.client(trust: .pem(authority.certificatePEM))
        var client = try TLSEngine(client: context, serverName: "localhost")
        try client.start()
        do throws(TLSError) {
            try client.receivedEnd()
            Issue.record("the handshake was not over")
        } catch {
            #expect(error.code == .closedDuringHandshake)
        }
    }

    @Test func anAlteredRecordEndsTheConnection() throws {
        let pair = try EnginePair.open()
        try pair.client.write(ByteBuffer(string: "first"))
        try pair.carryToServer()
        try pair.client.write(ByteBuffer(string: "second"))
        let taken = pair.client.takeCiphertext()
        var bytes = try #require(taken)
        let last = bytes.readableBytes - 1
        bytes.setInteger(try #require(bytes.getInteger(at: last, as: UInt8.self)) ^ 1, at: last)
        #expect(KeyTests.code { try pair.server.receive(bytes, into: &pair.serverPlaintext) } == .protocolViolation)
        #expect(pair.server.state == .failed)
        #expect(String(buffer: pair.serverPlaintext) == "first")
        // The alert tells the client.
        #expect(KeyTests.code { try pair.carryToClient() } == .peerAlert)
    }

    @Test func whatIsNotTLSIsRefused() throws {
        let authority = try TestCertificates.authority()
        let identity = try authority.issue(TestCertificates.profile())
        var server = try TLSEngine(server: .server(identity: identity))
        var client = try TLSEngine(client: .client(trust: .pem(authority.certificatePEM)), serverName: "localhost")
        try client.start()
        var plaintext = ByteBuffer()
        for text in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
            var refusal: TLSError?
            do throws(TLSError) {
                if text.hasPrefix("GET") {
                    try server.receive(ByteBuffer(string: text), into: &plaintext)
                } else {
                    try client.receive(ByteBuffer(string: text), into: &plaintext)
                }
            } catch {
                refusal = error
            }
            #expect(refusal?.code == .protocolViolation)
        }
        #expect(plaintext.readableBytes == 0)
    }
}
