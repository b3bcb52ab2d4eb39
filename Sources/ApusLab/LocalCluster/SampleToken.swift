package import ApusCore

/// Generates random tokens in the providers' forms, which belong to nobody.
package enum SampleToken {
    /// Returns 32 bytes in hexadecimal.
    package static func apple(_ generator: inout SeededGenerator) -> String {
        var bytes: [UInt8] = []
        for _ in 0..<4 {
            let word = generator.next()
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> shift))
            }
        }
        return Hexadecimal.encode(bytes)
    }

    /// Returns a text like "dGhpc0lzTm8:APA91b…": 152 characters.
    package static func google(_ generator: inout SeededGenerator) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        func draw(_ count: Int) -> [UInt8] { (0..<count).map { _ in alphabet[Int(generator.next() >> 58)] } }
        let instance = draw(11)
        return String(decoding: instance + Array(":APA91b".utf8) + draw(134), as: UTF8.self)
    }
}
