package import NIOCore
package import NIOPosix

/// The address of a server.
package enum NetworkAddress: Hashable, Sendable {
    /// A host, by name or number, and a port.
    case host(String, port: Int)
    /// The path of a Unix socket.
    case unixSocket(String)
}

/// An event loop that has a network of its own instead of the machine's. Whatever connects or listens on it does so there, which lets a
/// simulation see, delay and cut every byte.
package protocol VirtualNetworkLoop: EventLoop {
    /// Opens a connection, and calls `initialize` with its channel before the first byte.
    func connect(
        to address: NetworkAddress,
        timeout: TimeAmount,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel>

    /// Accepts connections at a port, and calls `initialize` with the channel of each. The returned channel is closed to end that.
    func listen(
        at port: Int,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel>
}

/// Opens connections to servers.
package struct Dialer: Sendable {
    /// The time limit of an attempt.
    package var timeout: TimeAmount
    /// Looks names up; nil for the system's resolver.
    package var resolver: (any Resolver & Sendable)?
    /// True to send small writes at once.
    package var hasNoDelay = false
    /// The buffered bytes at which a channel stops being writable, and is writable again; nil for NIO's.
    package var waterMark: ChannelOptions.Types.WriteBufferWaterMark?

    /// Creates a dialer.
    package init(timeout: TimeAmount) { self.timeout = timeout }

    /// Opens a connection.
    ///
    /// - Parameter initialize: adds the channel's handlers, before the first byte.
    package func connect(
        to address: NetworkAddress,
        on eventLoop: any EventLoop,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>,
    ) -> EventLoopFuture<any Channel> {
        if let virtual = eventLoop as? any VirtualNetworkLoop {
            return virtual.connect(to: address, timeout: self.timeout, initialize: initialize)
        }
        var bootstrap = ClientBootstrap(group: eventLoop)
            .resolver(self.resolver)
            .connectTimeout(self.timeout)
            .channelInitializer(initialize)
        if self.hasNoDelay { bootstrap = bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1) }
        if let waterMark { bootstrap = bootstrap.channelOption(.writeBufferWaterMark, value: waterMark) }
        return switch address {
        case .host(let host, let port): bootstrap.connect(host: host, port: port)
        case .unixSocket(let path): bootstrap.connect(unixDomainSocketPath: path)
        }
    }
}
