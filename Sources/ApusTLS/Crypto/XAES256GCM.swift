internal import ApusCore
internal import COpenSSL

/// Encrypts with XAES-256-GCM: AES-256-GCM under a key that is derived from the key and half of a nonce of 24 bytes. Random nonces of that
/// length never meet, so processes that know nothing of each other may use one key for as long as they like.
///
/// A value serves one thread: it has the state that OpenSSL needs for one text after the other.
///
/// Source: https://c2sp.org/XAES-256-GCM
@safe
package struct XAES256GCM: ~Copyable {
    /// The length of a key, in bytes.
    package static let keyBytes = 32
    /// The length of a nonce, in bytes.
    package static let nonceBytes = 24
    /// The length of the tag behind the ciphertext, in bytes.
    package static let tagBytes = 16

    private static let blockBytes = 16
    /// The bytes of a nonce from which the key is derived; the others are the nonce of AES-GCM.
    private static let derivingBytes = 12

    /// The algorithms as OpenSSL has them, looked up once: a look-up costs more than a text. OpenSSL shares them between threads.
    nonisolated(unsafe) private static let algorithms: (block: OpaquePointer, gcm: OpaquePointer)? = {
        guard let block = unsafe EVP_CIPHER_fetch(nil, "AES-256-ECB", nil),
            let gcm = unsafe EVP_CIPHER_fetch(nil, "AES-256-GCM", nil)
        else { return nil }
        return unsafe (block, gcm)
    }()

    private let block: OpaquePointer
    private let gcm: OpaquePointer
    /// The first subkey of CMAC (NIST SP 800-38B §6.1), with which both blocks of a derivation are combined.
    private var subkey: [UInt8]
    private var derived = [UInt8](repeating: 0, count: Self.keyBytes)

    /// Creates the cipher of a key. Traps on a key of another length, and without memory.
    package init(key: [UInt8]) {
        precondition(key.count == Self.keyBytes, "an XAES-256-GCM key has 32 bytes")
        guard let algorithms = unsafe Self.algorithms, let block = unsafe EVP_CIPHER_CTX_new(),
            let gcm = unsafe EVP_CIPHER_CTX_new()
        else { preconditionFailure("OpenSSL could not allocate") }
        unsafe self.block = unsafe block
        unsafe self.gcm = unsafe gcm
        self.subkey = []
        let isReady =
            unsafe EVP_EncryptInit_ex(block, algorithms.block, nil, key, nil) == 1
            && EVP_CIPHER_CTX_set_padding(block, 0) == 1
            && EVP_EncryptInit_ex(gcm, algorithms.gcm, nil, nil, nil) == 1
        precondition(isReady, "OpenSSL has no AES-256")
        let whole = self.encrypted([UInt8](repeating: 0, count: Self.blockBytes))
        self.subkey = whole.indices.map { index in
            whole[index] << 1 | (index + 1 < whole.count ? whole[index + 1] >> 7 : 0)
        }
        if whole[0] & 0x80 != 0 { self.subkey[Self.blockBytes - 1] ^= 0x87 }
    }

    deinit {
        unsafe EVP_CIPHER_CTX_free(self.block)
        unsafe EVP_CIPHER_CTX_free(self.gcm)
    }

    /// Returns the ciphertext with its tag behind it.
    ///
    /// - Parameters:
    ///   - nonce: 24 random bytes.
    ///   - context: bytes that are not encrypted, without which the result cannot be opened.
    package mutating func seal(_ plaintext: [UInt8], nonce: [UInt8], context: [UInt8]) -> [UInt8] {
        let rest = self.derive(nonce.span)
        let total = plaintext.count + Self.tagBytes
        return unsafe [UInt8](unsafeUninitializedCapacity: total) { buffer, count in
            var (written, ignored): (CInt, CInt) = (0, 0)
            let tag = unsafe buffer.baseAddress.map { unsafe $0 + plaintext.count }
            let isSealed =
                unsafe EVP_EncryptInit_ex(self.gcm, nil, nil, self.derived, rest) == 1
                && EVP_EncryptUpdate(self.gcm, nil, &ignored, context, CInt(context.count)) == 1
                && EVP_EncryptUpdate(self.gcm, buffer.baseAddress, &written, plaintext, CInt(plaintext.count)) == 1
                && EVP_EncryptFinal_ex(self.gcm, tag, &ignored) == 1
                && EVP_CIPHER_CTX_ctrl(self.gcm, EVP_CTRL_AEAD_GET_TAG, CInt(Self.tagBytes), tag) == 1
            precondition(isSealed && Int(written) == plaintext.count, "AES-256-GCM failed")
            count = total
        }
    }

    /// Appends the plaintext of a result of `seal`.
    ///
    /// - Returns: false, with nothing appended, if a byte was altered, or the key, the nonce or the context is another.
    package mutating func open(
        _ sealed: Span<UInt8>,
        nonce: Span<UInt8>,
        context: [UInt8],
        appendingTo plaintext: inout [UInt8],
    ) -> Bool {
        guard sealed.count >= Self.tagBytes, nonce.count == Self.nonceBytes else { return false }
        let rest = self.derive(nonce)
        let length = sealed.count - Self.tagBytes
        var tag: [UInt8] = []
        for index in length..<sealed.count { tag.append(sealed[index]) }
        let start = plaintext.count
        plaintext.append(contentsOf: repeatElement(0, count: length))
        let gcm = unsafe self.gcm
        let derived = self.derived
        let isOpened = unsafe sealed.withUnsafeBufferPointer { input in
            unsafe plaintext.withUnsafeMutableBufferPointer { output in
                var (written, ignored): (CInt, CInt) = (0, 0)
                let place = unsafe output.baseAddress.map { unsafe $0 + start }
                var last = [UInt8](repeating: 0, count: Self.blockBytes)
                return unsafe EVP_DecryptInit_ex(gcm, nil, nil, derived, rest) == 1
                    && EVP_DecryptUpdate(gcm, nil, &ignored, context, CInt(context.count)) == 1
                    && EVP_DecryptUpdate(gcm, place, &written, input.baseAddress, CInt(length)) == 1
                    && EVP_CIPHER_CTX_ctrl(gcm, EVP_CTRL_AEAD_SET_TAG, CInt(Self.tagBytes), &tag) == 1
                    && EVP_DecryptFinal_ex(gcm, &last, &ignored) == 1
            }
        }
        if !isOpened { plaintext.removeLast(length) }
        return isOpened
    }

    /// Derives the key of a nonce, and returns the nonce that is used with it.
    private mutating func derive(_ nonce: Span<UInt8>) -> [UInt8] {
        precondition(nonce.count == Self.nonceBytes, "an XAES-256-GCM nonce has 24 bytes")
        var blocks: [UInt8] = []
        blocks.reserveCapacity(2 * Self.blockBytes)
        for number: UInt8 in 1...2 {
            blocks += [0, number, 0x58, 0]
            for index in 0..<Self.derivingBytes { blocks.append(nonce[index]) }
        }
        for index in blocks.indices { blocks[index] ^= self.subkey[index % Self.blockBytes] }
        self.derived = self.encrypted(blocks)
        return (Self.derivingBytes..<Self.nonceBytes).map { nonce[$0] }
    }

    /// Encrypts whole blocks, each by itself.
    private func encrypted(_ blocks: [UInt8]) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: blocks.count) { buffer, count in
            var written: CInt = 0
            let isDone =
                unsafe EVP_EncryptUpdate(self.block, buffer.baseAddress, &written, blocks, CInt(blocks.count)) == 1
            precondition(isDone && Int(written) == blocks.count, "AES-256 failed")
            count = blocks.count
        }
    }
}

/// Reads files with keys for ``XAES256GCM``: one key on each line, the current one first, then those that it replaces.
package enum EncryptionKeys {
    /// The maximum number of keys in a file.
    package static let countMax = 4

    /// Returns the keys of a file, 32 bytes each.
    ///
    /// - Returns: nil for anything but one to four lines of 64 hexadecimal digits.
    package static func keys(of file: [UInt8]) -> [[UInt8]]? {
        let lines = file.split { $0 == 0x0a || $0 == 0x0d }
        guard (1...Self.countMax).contains(lines.count) else { return nil }
        let keys = lines.compactMap { Hexadecimal.decode(String(decoding: $0, as: UTF8.self)) }
        guard keys.count == lines.count, keys.allSatisfy({ $0.count == XAES256GCM.keyBytes }) else { return nil }
        return keys
    }
}
