package import ApusTLS
internal import FoundationEssentials

/// Names the files of a server's TLS identity, and of the authorities of its clients.
public struct ServerTLSSettings: Hashable, Sendable {
    /// The certificate and its intermediates, PEM.
    public var certificateFile: String
    /// The private key, PEM.
    public var keyFile: String
    /// The authorities that clients' certificates must come from, PEM; nil when clients need none.
    public var clientCAFile: String?

    /// Reads the settings below a key; nil when there are none.
    ///
    /// - Parameter takesClients: true when clients may have certificates.
    public init?(_ reader: SettingsReader, at key: String, takesClients: Bool = false) {
        let certificate = reader.filePath("\(key).certificate_file")
        let privateKey = reader.filePath("\(key).key_file")
        self.clientCAFile = takesClients ? reader.filePath("\(key).client_ca_file") : nil
        switch (certificate, privateKey) {
        case (let certificate?, let privateKey?):
            self.certificateFile = certificate
            self.keyFile = privateKey
            return
        case (nil, nil):
            let needsBoth = takesClients && reader.isGiven("\(key).client_ca_file")
            if needsBoth { reader.issue("\(key).client_ca_file", "needs certificate_file and key_file beside it") }
        case (_?, nil): reader.issue("\(key).key_file", "is required beside certificate_file")
        case (nil, _?): reader.issue("\(key).certificate_file", "is required beside key_file")
        }
        return nil
    }

    /// Reads the files. Clients may do without a certificate, but one that they show must be valid.
    ///
    /// - Parameter key: the key of the settings, for the error.
    package func context(for key: String) throws -> TLSContext {
        let (chain, privateKey) = (try Self.text(self.certificateFile), try Self.text(self.keyFile))
        do {
            let identity = try TLSIdentity(certificateChainPEM: chain, privateKeyPEM: privateKey)
            return try TLSContext.server(
                identity: identity,
                alpn: ["http/1.1"],
                clientCA: self.clientCAFile.map { .file($0) },
                requiresClientCertificate: false,
            )
        } catch {
            throw ServerTLSError(description: "the files of \(key) cannot be used: \(error)")
        }
    }

    private static func text(_ path: String) throws -> String {
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            let reason = SystemErrorText.reason(for: path, error)
            throw ServerTLSError(description: "\(path) cannot be read: \(reason)")
        }
    }
}

/// Reports why a server's TLS files cannot be used.
package struct ServerTLSError: Error, CustomStringConvertible {
    /// The sentence.
    package let description: String
}
