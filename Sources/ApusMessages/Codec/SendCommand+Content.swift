internal import ApusCore

extension SendCommand {
    /// The numbers of the fields that say neither what is sent nor to whom: `id`, `published_at_ns`, `traceparent` and `tracestate`.
    private static let circumstances: Set<UInt32> = [1, 6, 13, 14]

    /// Returns an encoded command without its id, its time and its trace: what two publications of the same content have in common. Bytes that
    /// are no encoding are returned up to where they end to be one.
    package static func content(ofEncoded command: [UInt8]) -> [UInt8] {
        var content: [UInt8] = []
        content.reserveCapacity(command.count)
        let bytes = command.span
        var reader = WireReader(0..<command.count)
        while !reader.isAtEnd {
            let start = reader.position
            guard let tag = reader.tag(bytes), reader.skip(tag.form, bytes) else { break }
            guard !Self.circumstances.contains(tag.number) else { continue }
            content.append(contentsOf: command[start..<reader.position])
        }
        return content
    }
}
