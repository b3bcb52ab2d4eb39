internal import ApusRedis

/// How the answers of our own functions are read: what is missing reads as empty, and the word that leads an answer decides.
extension RESPNode {
    /// The text; empty for anything else.
    var text: String { self.string ?? "" }
    /// The number; 0 for anything else.
    var number: Int64 { self.integer ?? 0 }
    /// The bytes; none for anything else.
    var blob: [UInt8] { self.bytes ?? [] }
}
