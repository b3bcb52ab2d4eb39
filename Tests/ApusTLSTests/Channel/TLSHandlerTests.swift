import ApusTLS
import Foundation
import NIOCore
import NIOEmbedded
import Testing

/// The handler without sockets or time: two embedded channels, carried by hand.
@Suite struct TLSHandlerTests {
    private final class Ends {
        let client = EmbeddedChannel()
        let server = EmbeddedChannel()

        init(serverName: String = "localhost", limits: TLSHandler.Limits = TLSHandler.Limits()) throws {
            let root = try TestCertificates.authority()
            let clientContext = try TLSContext.client(trust: .pem(root.certificatePEM), alpn: ["h2"])
            let serverContext = try TLSContext.server(identity: root.issue(TestCertificates.profile()), alpn: ["h2"])
            let handler = try TLSHandler(client: clientContext, serverName: serverName, limits: limits)
            try self.client.pipeline.syncOperations.addHandler(handler)
            try self.server.pipeline.syncOperations.addHandler(TLSHandler(server: serverContext))
        }

        func connect() throws {
            let address = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
            try self.client.connect(to: address).wait()
            try self.server.connect(to: address).wait()
        }

        /// Carries all ciphertext both ways until there is none; sizes of the buffers that the client sent.
        @discardableResult
        func carry() throws -> [Int] {
            var sizes: [Int] = []
            var moved = true
            while moved {
                moved = false
                while let bytes = try self.client.readOutbound(as: ByteBuffer.self) {
                    sizes.append(bytes.readableBytes)
                    try self.server.writeInbound(bytes)
                    moved = true
                }
                while let bytes = try self.server.readOutbound(as: ByteBuffer.self) {
                    try self.client.writeInbound(bytes)
                    moved = true
                }
            }
            return sizes
        }

        func received() throws -> ByteBuffer {
            var all = ByteBuffer()
            while var bytes = try self.server.readInbound(as: ByteBuffer.self) { all.writeBuffer(&bytes) }
            return all
        }

        func finish() {
            _ = try? self.client.finish(acceptAlreadyClosed: true)
            _ = try? self.server.finish(acceptAlreadyClosed: true)
        }
    }

    /// Threads of event loops still use OpenSSL when the main thread ends the process.
    @Test func `A process can exit while other threads make connections`() async {
        for _ in 0..<3 {
            await #expect(processExitsWith: .success) {
                for _ in 0..<4 {
                    Thread.detachNewThread {
                        while true {
                            let ends = try? Ends()
                            try? ends?.connect()
                            _ = try? ends?.carry()
                        }
                    }
                }
                try? await Task.sleep(for: .milliseconds(200))
                exit(0)
            }
        }
    }

    @Test func manyWritesLeaveAsOneBufferOfFullRecords() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        try ends.carry()
        let piece = ByteBuffer(repeating: 0x61, count: 500)
        for _ in 0..<100 { ends.client.write(piece, promise: nil) }
        #expect(try ends.client.readOutbound(as: ByteBuffer.self) == nil)
        ends.client.flush()
        // 50,000 bytes: three full records and a rest.
        #expect(try ends.carry() == [50_000 + 4 * 22])
        #expect(try ends.received() == ByteBuffer(repeating: 0x61, count: 50_000))
    }

    @Test func aChunkIsEncryptedWithoutWaitingForTheFlush() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        try ends.carry()
        let count = 3 * TLSHandler.chunkBytes + 100
        ends.client.writeAndFlush(ByteBuffer(repeating: 1, count: count), promise: nil)
        let full = TLSHandler.chunkBytes + 16 * 22
        #expect(try ends.carry() == [full, full, full, 122])
        #expect(try ends.received().readableBytes == count)
    }

    @Test func everyPromiseIsKept() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        let early = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.writeAndFlush(ByteBuffer(string: "early"), promise: early)
        try ends.carry()
        try early.futureResult.wait()
        let promises = (0..<5).map { _ in ends.client.eventLoop.makePromise(of: Void.self) }
        for promise in promises { ends.client.write(ByteBuffer(string: "x"), promise: promise) }
        let empty = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.write(ByteBuffer(), promise: empty)
        ends.client.flush()
        for promise in promises { try promise.futureResult.wait() }
        try empty.futureResult.wait()
        let alone = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.writeAndFlush(ByteBuffer(), promise: alone)
        try alone.futureResult.wait()
        try ends.carry()
        #expect(String(buffer: try ends.received()) == "earlyxxxxx")
    }

    @Test func whatWaitsFailsWithTheHandshake() throws {
        let ends = try Ends(serverName: "example.com")
        defer { ends.finish() }
        try ends.connect()
        let promise = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.writeAndFlush(ByteBuffer(string: "secret"), promise: promise)
        _ = try? ends.carry()
        #expect(KeyTests.code { try promise.futureResult.wait() } == .certificateVerificationFailed)
        #expect(!ends.client.isActive)
        #expect(try ends.received().readableBytes == 0)
    }

    @Test func whatMayWaitForTheHandshakeHasALimit() throws {
        var limits = TLSHandler.Limits()
        limits.waitingBytesMax = 1_000
        let ends = try Ends(limits: limits)
        defer { ends.finish() }
        try ends.connect()
        let first = ends.client.eventLoop.makePromise(of: Void.self)
        let second = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.write(ByteBuffer(repeating: 1, count: 1_000), promise: first)
        #expect(ends.client.isActive)
        ends.client.write(ByteBuffer(repeating: 1, count: 1), promise: second)
        #expect(!ends.client.isActive)
        for promise in [first, second] {
            #expect(KeyTests.code { try promise.futureResult.wait() } == .bufferFull)
        }
        #expect(KeyTests.code { try ends.client.throwIfErrorCaught() } == .bufferFull)
    }

    @Test func theHandshakeHasALimitInTime() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        ends.client.embeddedEventLoop.advanceTime(by: .seconds(9))
        #expect(ends.client.isActive)
        ends.client.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!ends.client.isActive)
        #expect(KeyTests.code { try ends.client.throwIfErrorCaught() } == .handshakeTimedOut)
    }

    @Test func aFinishedHandshakeIsNotTimedOut() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        try ends.carry()
        ends.client.embeddedEventLoop.advanceTime(by: .seconds(60))
        #expect(ends.client.isActive)
    }

    @Test func nothingIsWrittenAfterAClose() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        try ends.carry()
        let unflushed = ends.client.eventLoop.makePromise(of: Void.self)
        ends.client.write(ByteBuffer(string: "never flushed"), promise: unflushed)
        try ends.client.close().wait()
        #expect(KeyTests.code { try unflushed.futureResult.wait() } == .closed)
        #expect(throws: (any Error).self) { try ends.client.writeOutbound(ByteBuffer(string: "late")) }
        try ends.carry()
        #expect(try ends.received().readableBytes == 0)
        #expect(!ends.server.isActive)
        try ends.server.throwIfErrorCaught()
    }

    @Test func aFailedWriteMayWriteAgainFromItsCallback() throws {
        let ends = try Ends()
        defer { ends.finish() }
        try ends.connect()
        let first = ends.client.eventLoop.makePromise(of: Void.self)
        let second = ends.client.eventLoop.makePromise(of: Void.self)
        let channel = ends.client
        first.futureResult.assumeIsolated().whenFailure { _ in
            channel.pipeline.syncOperations.writeAndFlush(NIOAny(ByteBuffer(string: "again")), promise: second)
        }
        ends.client.write(ByteBuffer(string: "first"), promise: first)
        try ends.client.close().wait()
        #expect(KeyTests.code { try second.futureResult.wait() } == .closed)
    }

    @Test func onceOpenAReaderMayCloseFromWithin() throws {
        final class Closer: ChannelInboundHandler {
            typealias InboundIn = ByteBuffer

            func channelRead(context: ChannelHandlerContext, data: NIOAny) {
                context.close(promise: nil)
            }
        }
        let ends = try Ends()
        defer { ends.finish() }
        try ends.server.pipeline.syncOperations.addHandler(Closer())
        try ends.connect()
        try ends.carry()
        ends.client.writeAndFlush(ByteBuffer(string: "bye"), promise: nil)
        try ends.carry()
        #expect(!ends.server.isActive)
        #expect(!ends.client.isActive)
        try ends.client.throwIfErrorCaught()
        try ends.server.throwIfErrorCaught()
    }
}
