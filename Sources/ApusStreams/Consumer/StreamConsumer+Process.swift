internal import Glibc

extension StreamConsumer {
    /// A consumer of this process: `<host>-<pid>-<64-bit nonce>`, so that no later process is taken for it.
    public static func ofThisProcess(group: String) -> StreamConsumer {
        var name = [CChar](repeating: 0, count: 256)
        let isNamed = unsafe gethostname(&name, name.count - 1) == 0
        let host =
            isNamed ? String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : "host"
        return StreamConsumer(
            group: group,
            name: "\(host)-\(getpid())-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        )
    }
}
