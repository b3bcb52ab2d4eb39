/// A redirection such as `MOVED 3999 127.0.0.1:6381`, which names the server of a slot.
package struct RedisRedirection: Hashable, Sendable {
    /// The slot.
    package var slot: Int
    /// The server that holds it.
    package var endpoint: RedisEndpoint

    /// Reads a `MOVED`; nil for any other error, and for one without a server.
    ///
    /// - Parameter source: the server that answered. An empty host, which a node without an address of its own sends, is
    ///   that server's.
    package init?(_ error: RedisError, by source: RedisEndpoint) {
        let words = error.message.split(separator: " ")
        guard error.code == .moved, words.count == 3, let slot = Int(words[1]),
            (0..<HashTag.slotCount).contains(slot), let colon = words[2].lastIndex(of: ":"),
            let port = Int(words[2][words[2].index(after: colon)...]), (1...65_535).contains(port)
        else { return nil }
        let name = words[2][..<colon]
        guard let host = name.isEmpty || name == "?" ? source.host : String(name) else { return nil }
        self.slot = slot
        self.endpoint = .host(host, port: port)
    }
}
