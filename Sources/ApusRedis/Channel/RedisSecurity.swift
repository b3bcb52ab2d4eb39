internal import ApusTLS
internal import NIOCore

/// How connections are protected: not at all, or with TLS. Made once per client: the trusted certificates are read here.
struct RedisSecurity: Sendable {
    private let context: TLSContext?
    private let serverName: String?

    init(_ configuration: RedisConfiguration) throws(RedisError) {
        self.serverName = configuration.tls?.serverName
        guard let tls = configuration.tls else {
            self.context = nil
            return
        }
        do {
            let trust: TLSTrust =
                switch tls.certificateAuthorityFile {
                case .some(let path): .file(path)
                case .none: .system
                }
            self.context = try TLSContext.client(trust: trust, certificate: nil, alpn: [])
        } catch {
            throw RedisError(.tls, "\(error)")
        }
    }

    /// Puts TLS in front, when it is asked for. The certificate must be valid for `host`, unless another name is set.
    func addHandler(to channel: any Channel, host: String?) throws {
        guard let context = self.context else { return }
        let name = self.serverName ?? host ?? ""
        try channel.pipeline.syncOperations.addHandler(TLSHandler(context: context, serverName: name))
    }
}
