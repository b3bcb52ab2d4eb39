extension RedisServer {
    /// How a server is set up.
    package struct Options: Sendable {
        /// PEM texts of a server that also listens with TLS.
        package struct TLS: Sendable {
            /// The server's certificate chain.
            package var certificatePEM: String
            /// Its key.
            package var privateKeyPEM: String
            /// The certificates to trust, written beside them for clients to name.
            package var certificateAuthorityPEM: String

            /// Creates those texts.
            package init(certificatePEM: String, privateKeyPEM: String, certificateAuthorityPEM: String) {
                self.certificatePEM = certificatePEM
                self.privateKeyPEM = privateKeyPEM
                self.certificateAuthorityPEM = certificateAuthorityPEM
            }
        }

        /// Keep an append-only file, synced at every write: what was acknowledged survives `kill()`.
        package var isAppendOnly: Bool
        /// Also listen with TLS.
        package var tls: TLS?
        /// Further settings, as in `redis.conf`: `["maxmemory": "4mb"]`.
        package var settings: [String: String]

        /// True when it is a cluster of one; a plain server can have replicas, and be one.
        package var isCluster: Bool
        /// The loopback port of the plain server that it follows.
        package var primaryPort: Int?

        /// Options.
        package init(
            isAppendOnly: Bool = false,
            tls: TLS? = nil,
            settings: [String: String] = [:],
            isCluster: Bool = true,
            primaryPort: Int? = nil,
        ) {
            precondition(primaryPort == nil || !isCluster, "a cluster of one follows nobody")
            self.isCluster = isCluster
            self.primaryPort = primaryPort
            self.isAppendOnly = isAppendOnly
            self.tls = tls
            self.settings = settings
        }
    }
}
