internal import COpenSSL

/// Lends memory to OpenSSL's readers and writers. The memory of a writer is wiped.
enum MemoryBIO {
    /// Calls `body` with a BIO that reads `bytes`; valid during the call.
    static func reading<Value, Failure: Error>(
        _ bytes: [UInt8],
        _ body: (OpaquePointer) throws(Failure) -> Value,
    ) throws(Failure) -> Value {
        let count = CInt(clamping: bytes.count)
        // Closure-based access cannot rethrow a typed error, so the BIO reads a copy that is wiped afterwards.
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(bytes.count, 1))
        _ = unsafe copy.initialize(from: bytes)
        defer {
            unsafe OPENSSL_cleanse(copy.baseAddress, copy.count)
            unsafe copy.deallocate()
        }
        guard let bio = unsafe BIO_new_mem_buf(copy.baseAddress, count) else {
            preconditionFailure("OpenSSL could not allocate a memory BIO")
        }
        defer { unsafe BIO_free(bio) }
        return unsafe try body(bio)
    }

    /// Returns the bytes that `body` wrote; nil when it failed.
    static func written(_ body: (OpaquePointer) -> Bool) -> [UInt8]? {
        guard let bio = unsafe BIO_new(BIO_s_secmem()) else { return nil }
        defer { unsafe BIO_free(bio) }
        guard unsafe body(bio) else { return nil }
        var data: UnsafeMutablePointer<CChar>?
        let count = unsafe COpenSSL_BIO_get_mem_data(bio, &data)
        guard count > 0, let start = unsafe data else { return [] }
        return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
    }
}
