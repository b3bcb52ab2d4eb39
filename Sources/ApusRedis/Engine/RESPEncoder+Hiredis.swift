internal import CHiredis

extension RESPEncoder {
    /// Formats a command with hiredis' own formatter: the oracle of the tests.
    package static func encodedByHiredis(_ arguments: [[UInt8]]) -> [UInt8] {
        let bytes = arguments.flatMap(\.self)
        var starts: [Int] = []
        var start = 0
        for argument in arguments {
            starts.append(start)
            start += argument.count
        }
        return unsafe bytes.withUnsafeBytes { all in
            // An empty argument needs a pointer as well, but nothing is read from it.
            let base = unsafe all.baseAddress ?? UnsafeRawPointer(bitPattern: 1)
            var pointers = unsafe starts.map { offset in
                unsafe base.map { unsafe ($0 + offset).assumingMemoryBound(to: CChar.self) }
            }
            var target: UnsafeMutablePointer<CChar>?
            let length = unsafe redisFormatCommandArgv(
                &target,
                CInt(arguments.count),
                &pointers,
                arguments.map(\.count),
            )
            guard length >= 0, let formatted = unsafe target else { preconditionFailure("out of memory") }
            defer { unsafe redisFreeCommand(formatted) }
            return unsafe Array(UnsafeRawBufferPointer(start: formatted, count: Int(length)))
        }
    }
}

extension RESPParser {
    /// The version of hiredis that this program was compiled against.
    package static var hiredisVersion: (major: Int, minor: Int) {
        (Int(CHiredis_majorVersion()), Int(CHiredis_minorVersion()))
    }
}
