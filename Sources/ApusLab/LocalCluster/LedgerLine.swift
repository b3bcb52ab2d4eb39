package import ApusCore
package import ApusSimulator

/// A request in the simulator's ledger, as its control listener reports it.
package struct LedgerLine: Hashable, Sendable {
    private static let bytesMax = 16 * 1_024

    /// The time of the decision in nanoseconds since 1970.
    package var timeNanoseconds: Int64
    /// The provider that received it.
    package var provider: Provider
    /// The token's digest.
    package var digest: TokenDigest
    /// The send that the payload names.
    package var send: String?
    /// The status of the answer; 0 for none.
    package var status: Int

    /// True when the provider accepted it: with 200, a browser's with 201.
    package var isAccepted: Bool { self.status / 100 == 2 }

    /// Creates a request.
    package init(timeNanoseconds: Int64, provider: Provider, digest: TokenDigest, send: String?, status: Int) {
        self.timeNanoseconds = timeNanoseconds
        self.provider = provider
        self.digest = digest
        self.send = send
        self.status = status
    }

    /// Parses a line; nil when it is not one of a ledger.
    package init?(json line: some Sequence<UInt8>) {
        guard let value = try? JSONValue(parsing: Array(line), bytesMax: Self.bytesMax),
            let time = value["time"]?.int64, let status = value["status"]?.int64, let token = value["token"]?.string,
            let provider = value["provider"]?.string.flatMap({ Provider(name: $0) })
        else { return nil }
        self.timeNanoseconds = time
        self.provider = provider
        self.digest = TokenDigest(token, provider: provider)
        self.send = value["send"]?.string
        self.status = Int(status)
    }
}

/// Splits pieces of text into lines.
package struct LineSplitter: Sendable {
    private var rest: [UInt8] = []

    /// Creates an empty splitter.
    package init() {}

    /// Adds the next piece, and passes on the lines that end in it.
    package mutating func take(_ bytes: some Sequence<UInt8>, _ line: ([UInt8]) -> Void) {
        for byte in bytes {
            if byte == 0x0a {
                if !self.rest.isEmpty { line(self.rest) }
                self.rest.removeAll(keepingCapacity: true)
            } else {
                self.rest.append(byte)
            }
        }
    }
}
