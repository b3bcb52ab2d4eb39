internal import COpenSSL
internal import NIOCore

/// Connects OpenSSL to ciphertext in memory: it reads bytes that are lent for one call, and writes into one `ByteBuffer`.
///
/// It is a separate object, so that the C library never holds a pointer to the engine that owns it. OpenSSL's own
/// memory BIO would copy every byte once more in each direction.
@safe final class CiphertextPipe {
    /// The bytes that wait to be sent.
    var outbound = ByteBuffer()
    private var inbound = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

    /// The callbacks of the pipe; created once, never freed.
    private nonisolated(unsafe) static let method: OpaquePointer = {
        let kind = BIO_get_new_index() | BIO_TYPE_SOURCE_SINK
        guard let method = unsafe BIO_meth_new(kind, "Apus ciphertext") else {
            preconditionFailure("OpenSSL could not allocate a BIO method")
        }
        unsafe BIO_meth_set_read(method) { bio, destination, count in
            unsafe COpenSSL_BIO_clear_retry_flags(bio)
            let read = unsafe CiphertextPipe.from(bio).read(into: destination, count: Int(count))
            guard read == 0 else { return CInt(read) }
            unsafe COpenSSL_BIO_set_retry_read(bio)
            return -1
        }
        unsafe BIO_meth_set_write(method) { bio, source, count in
            unsafe CiphertextPipe.from(bio).outbound.writeBytes(
                UnsafeRawBufferPointer(start: source, count: Int(count))
            )
            return count
        }
        // A flush succeeds: there is nothing behind the pipe. Other control commands are not supported.
        unsafe BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return unsafe method
    }()

    private static func from(_ bio: OpaquePointer?) -> CiphertextPipe {
        guard let data = unsafe BIO_get_data(bio) else { preconditionFailure("a BIO has no pipe") }
        return unsafe Unmanaged<CiphertextPipe>.fromOpaque(data).takeUnretainedValue()
    }

    /// Creates a BIO over this pipe, which must outlive it; the caller owns it.
    func makeBIO() -> OpaquePointer {
        guard let bio = unsafe BIO_new(Self.method) else { preconditionFailure("OpenSSL could not allocate a BIO") }
        unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    /// The number of lent bytes that were not read yet.
    var inboundCount: Int { unsafe self.inbound.count }

    /// Lends bytes; `takeBack` must be called before they are freed.
    func lend(_ bytes: UnsafeRawBufferPointer) { unsafe self.inbound = bytes }

    /// Ends the loan.
    func takeBack() { unsafe self.inbound = UnsafeRawBufferPointer(start: nil, count: 0) }

    private func read(into destination: UnsafeMutablePointer<CChar>?, count: Int) -> Int {
        let taken = min(count, self.inboundCount)
        guard taken > 0, let destination = unsafe destination else { return 0 }
        let source = unsafe UnsafeRawBufferPointer(rebasing: self.inbound[..<taken])
        unsafe UnsafeMutableRawBufferPointer(start: destination, count: taken).copyMemory(from: source)
        unsafe self.inbound = UnsafeRawBufferPointer(rebasing: self.inbound[taken...])
        return taken
    }
}
