internal import Glibc

/// Returns the text of a small file; nil when there is none.
func readFile(_ path: String) -> String? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while true {
        let count = unsafe read(descriptor, &chunk, chunk.count)
        guard count > 0 else { break }
        text.append(contentsOf: chunk[..<count])
    }
    return String(decoding: text, as: UTF8.self)
}

/// Writes a small file that other users cannot read.
func writeFile(_ path: String, _ text: String) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw RedisServerError("cannot write \(path): errno \(errno)") }
    defer { close(descriptor) }
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { throw RedisServerError("cannot write \(path): errno \(errno)") }
        rest = rest.dropFirst(count)
    }
}

extension String {
    /// The text without white space at the ends.
    var trimmed: String {
        let start = self.firstIndex { !$0.isWhitespace } ?? self.endIndex
        guard let end = self.lastIndex(where: { !$0.isWhitespace }) else { return "" }
        return String(self[start...end])
    }
}
