internal import NIOCore

/// Gathers plaintext that is written until it is encrypted, so that records come out full.
///
/// A single write is taken as it is; several are copied into a buffer that is kept.
struct PlaintextGathering {
    private var only: ByteBuffer?
    private var joined = ByteBuffer()
    private var promises: [EventLoopPromise<Void>] = []

    /// Largest buffer kept for the next time, in bytes.
    static let keptBytesMax = 512 * 1_024

    /// True when nothing waits, not even a promise for no bytes.
    var isEmpty: Bool { self.count == 0 && self.promises.isEmpty }

    /// Bytes gathered.
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

    /// One promise for all writes since the last time; nil if none has one.
    mutating func takePromise() -> EventLoopPromise<Void>? {
        let promise = self.promises.first
        for other in self.promises.dropFirst() { promise?.futureResult.cascade(to: other) }
        self.promises.removeAll(keepingCapacity: true)
        return promise
    }

    /// All bytes; none is left.
    mutating func takeBytes() -> ByteBuffer {
        if let only = self.only.take() { return only }
        var joined = ByteBuffer()
        swap(&joined, &self.joined)
        return joined
    }

    /// Gives a buffer of `takeBytes` back when its bytes are encrypted.
    mutating func recycle(_ buffer: consuming ByteBuffer) {
        guard self.joined.readableBytes == 0, buffer.capacity > self.joined.capacity,
            buffer.capacity <= Self.keptBytesMax
        else { return }
        buffer.clear()
        self.joined = buffer
    }
}
