internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1

/// Names what a request expects of the server (RFC 9110 §10.1.1). It is pure.
enum RequestExpectation: Hashable {
    /// The request expects nothing.
    case none
    /// The client sends the content when it is told to, or after a while.
    case continuation
    /// The request expects what no server has.
    case unknown

    private static let name = HTTPField.Name("expect")

    /// Reads the header `Expect`, whose values do not depend on case.
    init(_ headers: HTTPFields) {
        guard let name = Self.name, let value = headers[name] else {
            self = .none
            return
        }
        let members = value.lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }
        guard !members.isEmpty else {
            self = .none
            return
        }
        self = members.allSatisfy { $0 == "100-continue" } ? .continuation : .unknown
    }
}

/// Follows the content of the last request of a connection, with which its client waits until it is told to send it. It is pure.
///
/// A client that is answered without being told may keep its content to itself, or send it nevertheless, so what comes next on the connection has
/// two readings: it is closed.
struct WaitingContent {
    /// Requests whose heads have arrived, less those that are answered.
    private var unanswered = 0
    private var isWaiting = false
    private var isRefused = false

    /// True when the answer that is being written, or the next one, is to the last request that has arrived.
    var isAnsweringLast: Bool { self.unanswered == 1 }

    /// True when every request whose head has arrived is answered.
    var isAnswered: Bool { self.unanswered <= 0 }

    /// Receives a request's head.
    mutating func receiveHead(expectsContinue: Bool) {
        self.unanswered += 1
        self.isWaiting = expectsContinue
    }

    /// Receives a part of the content, or its end: the client waits no longer.
    mutating func receiveContent() { self.isWaiting = false }

    /// Asks for the content of the request that is being answered.
    ///
    /// - Returns: true when the client is to be told so; it is not when it has begun already.
    mutating func ask() -> Bool {
        guard self.isWaiting, self.unanswered == 1 else { return false }
        self.isWaiting = false
        return true
    }

    /// Begins an answer.
    ///
    /// - Returns: true when it is to that request, whose client still waits: the connection is closed after it.
    mutating func refuse() -> Bool {
        guard self.isWaiting, self.unanswered == 1 else { return false }
        self.isRefused = true
        return true
    }

    /// Ends an answer.
    ///
    /// - Returns: true when the connection is to be closed.
    mutating func finish() -> Bool {
        self.unanswered -= 1
        return self.isRefused
    }
}

/// Gives requests of HTTP/1.0 the headers that mean the same in HTTP/1.1. Their clients know no interim answer (RFC 9110 §10.1.1), and the connection
/// ends with the answer unless they ask to keep it (RFC 9112 §9.3).
final class OldRequestFilter: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = self.unwrapInboundIn(data), head.version == .http1_0 else {
            return context.fireChannelRead(data)
        }
        if !head.isKeepAlive { head.headers.replaceOrAdd(name: "connection", value: "close") }
        head.headers.remove(name: "expect")
        context.fireChannelRead(self.wrapInboundOut(.head(head)))
    }
}
