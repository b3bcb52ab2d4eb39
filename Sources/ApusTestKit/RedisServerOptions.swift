extension RedisServer {
    /// Configures a server.
    package struct Options: Sendable {
        /// PEM texts of a server that also listens with TLS.
        package struct TLS: Sendable {
            /// The server's certificate chain.
            package var certificatePEM: String
            /// The private key.
            package var privateKeyPEM: String
            /// The trusted certificates, written beside them for clients.
            package var certificateAuthorityPEM: String

            /// Creates the texts.
            package init(certificatePEM: String, privateKeyPEM: String, certificateAuthorityPEM: String) {
                self.certificatePEM = certificatePEM
                self.privateKeyPEM = privateKeyPEM
                self.certificateAuthorityPEM = certificateAuthorityPEM
            }
        }

        /// True to keep an append-only file, synced at every write: acknowledged writes survive `kill()`.
        package var isAppendOnly: Bool
        /// The certificates of a TLS port; nil for none.
        package var tls: TLS?
        /// The further settings of `redis.conf`: `["maxmemory": "4mb"]`.
        package var settings: [String: String]

        /// True for a cluster of one node; a standalone server can have replicas, and be one.
        package var isCluster: Bool
        /// True for a node of a `RedisCluster`, which says what the node knows of the others.
        var isMember = false
        /// The loopback port of the standalone server that this one replicates.
        package var primaryPort: Int?
        /// Further environment variables of the process.
        package var environment: [String: String]

        /// Creates options.
        package init(
            isAppendOnly: Bool = false,
            tls: TLS? = nil,
            settings: [String: String] = [:],
            isCluster: Bool = true,
            primaryPort: Int? = nil,
            environment: [String: String] = [:],
        ) {
            precondition(primaryPort == nil || !isCluster, "a cluster of one node cannot be a replica")
            self.isCluster = isCluster
            self.primaryPort = primaryPort
            self.environment = environment
            self.isAppendOnly = isAppendOnly
            self.tls = tls
            self.settings = settings
        }
    }
}
