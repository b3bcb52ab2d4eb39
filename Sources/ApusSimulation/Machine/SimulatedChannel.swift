internal import Glibc
internal import NIOCore

/// One end of a connection in the simulated network.
final class SimulatedChannel: Channel, ChannelCore, @unchecked Sendable {
    let loop: SimulatedLoop
    /// Sends bytes to the other end.
    var onWrite: (ByteBuffer) -> Void = { _ in }
    /// Tells the other end that this one is closed.
    var onClose: () -> Void = {}

    private var closePromise: EventLoopPromise<Void>
    private var madePipeline: ChannelPipeline?
    private var isOpen = true
    private var readsByItself = true
    private var wantsRead = false
    private var written: [(bytes: ByteBuffer, promise: EventLoopPromise<Void>?)] = []
    private var arrived: [ByteBuffer] = []
    private var end: (any Error)??
    private(set) var isActive = false

    init(_ loop: SimulatedLoop) {
        self.loop = loop
        self.closePromise = loop.makePromise()
        self.madePipeline = ChannelPipeline(channel: self)
    }

    // MARK: Life

    /// Tells the handlers that the connection is open.
    func activate() {
        self.isActive = true
        self.pipeline.fireChannelRegistered()
        self.pipeline.fireChannelActive()
        self.readIfWanted()
    }

    /// Takes bytes that arrive. It runs on the loop.
    func receive(_ bytes: ByteBuffer) {
        guard self.isOpen else { return }
        self.arrived.append(bytes)
        self.deliver()
    }

    /// Takes the end of the other side, after the bytes that came before it; an error is that of the network.
    func receiveEnd(_ error: (any Error)?) {
        guard self.isOpen else { return }
        self.end = .some(error)
        if error != nil { self.arrived = [] }
        self.deliver()
    }

    private func readIfWanted() {
        if self.readsByItself, self.isOpen { self.pipeline.read() }
    }

    private func deliver() {
        while self.isOpen, self.wantsRead, !self.arrived.isEmpty {
            self.wantsRead = false
            let bytes = self.arrived.removeFirst()
            self.pipeline.fireChannelRead(bytes)
            self.pipeline.fireChannelReadComplete()
            self.readIfWanted()
        }
        guard self.isOpen, self.arrived.isEmpty, let end = self.end else { return }
        if let error = end { self.pipeline.fireErrorCaught(error) }
        self.shut(error: ChannelError.eof, promise: nil, tells: false)
    }

    private func shut(error: any Error, promise: EventLoopPromise<Void>?, tells: Bool) {
        guard self.isOpen else {
            promise?.fail(ChannelError.alreadyClosed)
            return
        }
        self.isOpen = false
        let wasActive = self.isActive
        self.isActive = false
        for write in self.written { write.promise?.fail(error) }
        self.written = []
        self.arrived = []
        if tells { self.onClose() }
        promise?.succeed(())
        if wasActive { self.pipeline.fireChannelInactive() }
        self.pipeline.fireChannelUnregistered()
        self.loop.add {
            self.removeHandlers(pipeline: self.pipeline)
            self.closePromise.succeed(())
        }
    }

    // MARK: Channel

    var allocator: ByteBufferAllocator { ByteBufferAllocator() }
    var closeFuture: EventLoopFuture<Void> { self.closePromise.futureResult }
    var pipeline: ChannelPipeline {
        guard let pipeline = self.madePipeline else { preconditionFailure("a channel without a pipeline") }
        return pipeline
    }
    var localAddress: SocketAddress? { nil }
    var remoteAddress: SocketAddress? { nil }
    var parent: (any Channel)? { nil }
    var isWritable: Bool { self.isOpen }
    var eventLoop: any EventLoop { self.loop }
    // swift-format-ignore: NoLeadingUnderscores
    var _channelCore: any ChannelCore { self }

    func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) -> EventLoopFuture<Void> {
        if option is ChannelOptions.Types.AutoReadOption, let reads = value as? Bool {
            let did = self.readsByItself
            self.readsByItself = reads
            if reads, !did { self.readIfWanted() }
        }
        return self.loop.makeSucceededVoidFuture()
    }

    func getOption<Option: ChannelOption>(_ option: Option) -> EventLoopFuture<Option.Value> {
        if option is ChannelOptions.Types.AutoReadOption, let value = self.readsByItself as? Option.Value {
            return self.loop.makeSucceededFuture(value)
        }
        return self.loop.makeFailedFuture(ChannelError.operationUnsupported)
    }

    // MARK: ChannelCore

    func localAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func remoteAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func register0(promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
    func registerAlreadyConfigured0(promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
    func bind0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
        promise?.fail(ChannelError.operationUnsupported)
    }
    func connect0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
        promise?.fail(ChannelError.operationUnsupported)
    }

    func write0(_ data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard self.isOpen else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        self.written.append((self.unwrapData(data, as: ByteBuffer.self), promise))
    }

    func flush0() {
        guard !self.written.isEmpty else { return }
        let written = self.written
        self.written = []
        var bytes = written[0].bytes
        for next in written.dropFirst() { bytes.writeImmutableBuffer(next.bytes) }
        self.onWrite(bytes)
        for next in written { next.promise?.succeed(()) }
    }

    func read0() {
        self.wantsRead = true
        // Never within the call, as a socket.
        guard !self.arrived.isEmpty || self.end != nil else { return }
        self.loop.add { self.deliver() }
    }

    func close0(error: any Error, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .all else {
            promise?.fail(ChannelError.operationUnsupported)
            return
        }
        self.shut(error: error, promise: promise, tells: true)
    }

    func triggerUserOutboundEvent0(_ event: Any, promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
    func channelRead0(_ data: NIOAny) {}
    func errorCaught0(error: any Error) {}
}
