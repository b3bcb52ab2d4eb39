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
    package func context(for key: String) throws(SettingsIssue) -> TLSContext {
        let (chain, privateKey) = (try Self.text(self.certificateFile, key), try Self.text(self.keyFile, key))
        do throws(TLSError) {
            let identity = try TLSIdentity(certificateChainPEM: chain, privateKeyPEM: privateKey)
            return try TLSContext.server(
                identity: identity,
                alpn: ["http/1.1"],
                clientCA: self.clientCAFile.map { .file($0) },
                requiresClientCertificate: false,
            )
        } catch {
            throw SettingsIssue(key: key, place: nil, message: "the files cannot be used: \(error)")
        }
    }

    /// Reads the files, and uses none of them.
    ///
    /// - Parameter key: the key of the settings.
    /// - Returns: why they cannot be used; empty when they can.
    package func issues(for key: String) -> [SettingsIssue] {
        do throws(SettingsIssue) {
            _ = try self.context(for: key)
            return []
        } catch {
            return [error]
        }
    }

    private static func text(_ path: String, _ key: String) throws(SettingsIssue) -> String {
        do {
            return String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
        } catch {
            let reason = SystemErrorText.reason(for: path, error)
            throw SettingsIssue(key: key, place: nil, message: "\(path) cannot be read: \(reason)")
        }
    }
}

extension SettingsIssue {
    /// Reads the certificates of authorities, and uses none of them.
    ///
    /// - Parameters:
    ///   - file: the path; nil for the system's authorities.
    ///   - key: the key of the setting.
    /// - Returns: why they cannot be used; empty when they can.
    package static func issues(ofAuthoritiesIn file: String?, key: String) -> [SettingsIssue] {
        guard let file else { return [] }
        do throws(TLSError) {
            _ = try TLSContext.client(trust: .file(file))
            return []
        } catch {
            return [SettingsIssue(key: key, place: nil, message: "the file cannot be used: \(error)")]
        }
    }
}
