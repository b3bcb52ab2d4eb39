extension [UInt8] {
    /// Appends the bytes of a span at once.
    @inline(__always)
    mutating func append(span bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBufferPointer { unsafe self.append(contentsOf: $0) }
    }
}
