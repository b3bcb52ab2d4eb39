import ApusRegistration
import Testing

/// All lines of a text that comes in pieces of that size, and is taken by so many lines at a time; nil is a line that was not kept.
private func lines(_ text: String, pieces: Int, linesMax: Int, bytesMax: Int = 10) -> [(Int, String?)] {
    var splitter = LineSplitter(lineBytesMax: bytesMax)
    var found: [(Int, String?)] = []
    func take() {
        found += splitter.take().map { ($0.number, $0.bytes.map { String(decoding: $0, as: UTF8.self) }) }
    }
    let bytes = Array(text.utf8)
    for start in stride(from: 0, to: bytes.count, by: pieces) {
        var rest = bytes[start..<min(start + pieces, bytes.count)]
        repeat {
            rest = splitter.append(rest, linesMax: linesMax)
            let before = found.count
            take()
            #expect(found.count - before <= linesMax)
        } while !rest.isEmpty
    }
    splitter.finish()
    take()
    return found
}

@Suite struct LineSplitterTests {
    @Test(arguments: [1, 2, 3, 7, 100], [1, 2, 100])
    func linesAreTheSameHoweverTheyCome(pieces: Int, linesMax: Int) {
        let table: [(String, [(Int, String?)])] = [
            ("", []), ("\n\n", []), ("a", [(1, "a")]), ("a\n", [(1, "a")]), ("a\r\nb", [(1, "a"), (2, "b")]),
            ("\n a \n\t\nb\n", [(2, " a "), (4, "b")]),
            ("0123456789\n0123456789x\nb", [(1, "0123456789"), (2, nil), (3, "b")]),
            ("0123456789x", [(1, nil)]),
        ]
        for (text, expected) in table {
            let found = lines(text, pieces: pieces, linesMax: linesMax)
            #expect(found.map { $0.0 } == expected.map { $0.0 }, "\(text.debugDescription)")
            #expect(found.map { $0.1 } == expected.map { $0.1 }, "\(text.debugDescription)")
        }
    }
}
