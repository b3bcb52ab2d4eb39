internal import ApusTLS
internal import NIOCore

/// How connections are protected: not at all, or with TLS. Made once per client: the trusted certificates are read here.
struct RedisSecurity: Sendable {
    init(_ configuration: RedisConfiguration) throws(RedisError) {
        guard configuration.tls == nil else { throw RedisError(.tls, "rediss:// is not built in") }
    }

    /// Puts TLS in front, when it is asked for.
    func addHandler(to channel: any Channel, host: String?) throws {}
}
