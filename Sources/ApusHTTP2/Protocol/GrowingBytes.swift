/// A buffer of bytes that grows by doubling and is reused; its owner frees it by hand.
@safe struct GrowingBytes {
    private(set) var start: UnsafeMutablePointer<UInt8>?
    private(set) var capacity = 0
    private(set) var count = 0

    private static let capacityMin = 512

    init() { unsafe self.start = nil }

    /// Reserves room for the given bytes in all, keeps the contents, and returns the start.
    @unsafe @inline(__always)
    mutating func reserve(_ needed: Int) -> UnsafeMutablePointer<UInt8> {
        if let start = unsafe self.start, needed <= self.capacity { return unsafe start }
        return unsafe self.grow(to: needed)
    }

    @inline(never)
    private mutating func grow(to needed: Int) -> UnsafeMutablePointer<UInt8> {
        var capacity = max(self.capacity, Self.capacityMin)
        while capacity < needed { capacity *= 2 }
        let fresh = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        if let start = unsafe self.start {
            unsafe fresh.update(from: start, count: self.count)
            unsafe start.deallocate()
        }
        unsafe self.start = fresh
        self.capacity = capacity
        return unsafe fresh
    }

    /// Appends bytes.
    @inline(__always)
    mutating func append(_ bytes: UnsafePointer<UInt8>, count: Int) {
        let target = unsafe self.reserve(self.count + count) + self.count
        unsafe target.update(from: bytes, count: count)
        self.count += count
    }

    /// Appends a byte.
    @inline(__always)
    mutating func append(_ byte: UInt8) {
        unsafe self.reserve(self.count + 1)[self.count] = byte
        self.count += 1
    }

    /// Sets the number of bytes in use, after they were written in place.
    mutating func setCount(_ count: Int) {
        precondition(count <= self.capacity)
        self.count = count
    }

    /// Removes the bytes; frees the memory only if it is larger than `kept`.
    @inline(__always)
    mutating func clear(keeping kept: Int) {
        self.count = 0
        if self.capacity > kept { self.free() }
    }

    /// Frees the memory at the end of the owner's life.
    func deallocate() { unsafe self.start?.deallocate() }

    /// Frees the memory.
    mutating func free() {
        unsafe self.start?.deallocate()
        unsafe self.start = nil
        self.capacity = 0
        self.count = 0
    }
}

/// A run of bytes inside memory that another object owns.
@safe struct ByteRun {
    let start: UnsafeMutablePointer<UInt8>
    let count: Int
}
