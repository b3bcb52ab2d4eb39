internal import ApusTerminal
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Reads a simulator's ledger at its control listener.
package struct SimulatorControl: Sendable {
    private let host: String
    private let port: Int

    /// Creates an object for the control listener at a port of this machine.
    package init(host: String = "127.0.0.1", port: Int) {
        self.host = host
        self.port = port
    }

    /// Parses `http://host:port`; nil for anything else.
    package init?(url: String) {
        guard url.hasPrefix("http://") else { return nil }
        let parts = url.dropFirst("http://".count).split(separator: "/", maxSplits: 1)[0].split(separator: ":")
        guard parts.count == 2, let port = Int(parts[1]), (1...65_535).contains(port) else { return nil }
        self.init(host: String(parts[0]), port: port)
    }

    /// Passes on every request that the simulator decided since a time, in nanoseconds since 1970.
    package func readLedger(since: Int64 = 0, _ body: @escaping @Sendable (LedgerLine) -> Void) async throws {
        let connection = try await HTTPConnection.connect(
            host: self.host,
            port: self.port,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        let splitter = Mutex(LineSplitter())
        do {
            let answer = try await connection.send(HTTPClientRequest("GET", "/ledger?since=\(since)")) { piece in
                splitter.withLock { splitter in
                    splitter.take(piece.readableBytesView) { line in
                        if let line = LedgerLine(json: line) { body(line) }
                    }
                }
            }
            await connection.close()
            guard answer.status == 200 else {
                throw CommandFailure("the simulator answered \(answer.status) at \(self.host):\(self.port)")
            }
        } catch {
            await connection.close()
            throw error
        }
    }
}
