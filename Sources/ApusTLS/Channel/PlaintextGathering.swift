internal import NIOCore

/// Gathers written plaintext until it is encrypted, so that records are full.
///
/// A single write is used as it is; several are copied into a buffer that is kept.
struct PlaintextGathering {
    private var only: ByteBuffer?
    private var joined = ByteBuffer()
    private var promises: [EventLoopPromise<Void>] = []

    /// The largest buffer that is kept for the next time, in bytes.
    static let keptBytesMax = 512 * 1_024

    /// True when nothing waits, not even a promise for an empty write.
    var isEmpty: Bool { self.count == 0 && self.promises.isEmpty }

    /// The number of gathered bytes.
    var count: Int { self.only?.readableBytes ?? self.joined.readableBytes }

    mutating func append(_ bytes: ByteBuffer, promise: EventLoopPromise<Void>?) {
        if let promise { self.promises.append(promise) }
        guard self.count > 0 else {
            self.only = bytes
            return
        }
        if let first = self.only.take() { self.joined.writeImmutableBuffer(first) }
        self.joined.writeImmutableBuffer(bytes)
    }

    /// Returns one promise for all writes since the last call; nil if none has one.
    mutating func takePromise() -> EventLoopPromise<Void>? {
        let promise = self.promises.first
        for other in self.promises.dropFirst() { promise?.futureResult.cascade(to: other) }
        self.promises.removeAll(keepingCapacity: true)
        return promise
    }

    /// Removes and returns all bytes.
    mutating func takeBytes() -> ByteBuffer {
        if let only = self.only.take() { return only }
        var joined = ByteBuffer()
        swap(&joined, &self.joined)
        return joined
    }

    /// Takes a buffer of `takeBytes` back after its bytes were encrypted.
    mutating func recycle(_ buffer: consuming ByteBuffer) {
        guard self.joined.readableBytes == 0, buffer.capacity > self.joined.capacity,
            buffer.capacity <= Self.keptBytesMax
        else { return }
        buffer.clear()
        self.joined = buffer
    }
}
