package import ApusCore
internal import ApusRedis
package import ApusService
internal import Glibc

/// A setting that the services accept, but that exposes a secret or a service.
package struct ConfigurationWarning: Hashable, Sendable {
    /// The key of the setting.
    package var key: String
    /// The danger, as the continuation of a sentence that begins with the key.
    package var detail: String
    /// The remedy.
    package var cure: String

    /// The warning as a line.
    package var line: String { "warning: \(self.key) \(self.detail). \(self.cure)" }

    /// The warning as JSON.
    package var json: JSONValue {
        ["key": .string(self.key), "detail": .string(self.detail), "cure": .string(self.cure)]
    }
}

extension ConfigurationWarning {
    /// Ends of the keys of files that hold nothing secret. A file of any other setting counts as secret.
    private static let publicFiles = [
        ".ca_file", ".client_ca_file", ".port_file", ".jwks_file", ".jwt.key_file", ".tls.certificate_file",
    ]

    /// Finds files of secrets that other users of the machine may read or change.
    ///
    /// - Parameters:
    ///   - readings: the settings as a service reads them.
    ///   - configuration: the path of the configuration, which may hold Redis' password; nil when there is none.
    ///   - mode: returns the permission bits of the file at a path; nil when there is no such file.
    package static func files(
        _ readings: [SettingReading],
        configuration: String?,
        mode: (_ path: String) -> UInt32?,
    ) -> [ConfigurationWarning] {
        var warnings: [ConfigurationWarning] = []
        func check(_ key: String, _ path: String, _ holds: String) {
            guard let bits = mode(path), let access = Self.access(bits) else { return }
            let octal = String(bits, radix: 8)
            let words = "\(holds) \(path), which other users may \(access) (mode 0\(octal))"
            warnings.append(
                .init(key: key, detail: words, cure: "Run chmod 0600 on it, or 0640 for a group of its own")
            )
        }
        for reading in readings {
            guard let value = reading.value, case .given(let place) = reading.origin else { continue }
            if reading.key.hasSuffix("redis.url"), value.contains(SettingReading.secret), !place.hasPrefix("APUS_") {
                if let configuration { check(reading.key, configuration, "holds a password and stands in") }
            } else if reading.key.hasSuffix(".older_key_files") {
                for path in value.split(separator: ",") { check(reading.key, String(path), "names the secret file") }
            } else if reading.kind == .file, !Self.publicFiles.contains(where: { reading.key.hasSuffix($0) }) {
                // A certificate's file may hold its key, unless another file does.
                let other = reading.key.replacing("certificate_file", with: "certificate_key_file")
                let hasOther = other != reading.key && readings.contains { $0.key == other && $0.value != nil }
                if !hasOther { check(reading.key, value, "names the secret file") }
            }
        }
        return warnings
    }

    /// Returns what other users may do with a file of these permission bits; nil for nothing. A group may read: it is the service's own.
    private static func access(_ bits: UInt32) -> String? {
        switch (bits & 0o004 != 0, bits & 0o022 != 0) {
        case (true, true): "read and change"
        case (true, false): "read"
        case (false, true): "change"
        case (false, false): nil
        }
    }

    /// Returns the permission bits of the file that a path leads to; nil when there is none.
    package static func mode(ofFileAt path: String) -> UInt32? {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        return status.st_mode & 0o777
    }

    /// Checks the connection to Redis: beyond this machine it should be encrypted, and have a password.
    package static func redis(_ settings: RedisSettings) -> [ConfigurationWarning] {
        guard let configuration = try? RedisConfiguration(url: settings.url, clientName: "apus") else { return [] }
        let hosts = ([configuration.endpoint] + configuration.otherEndpoints).compactMap(\.host)
        guard let host = hosts.first(where: { !Self.isLoopback($0) }) else { return [] }
        var warnings: [ConfigurationWarning] = []
        if configuration.tls == nil {
            let detail = "reaches \(host) without TLS, so tokens, texts and passwords can be read on the way"
            warnings.append(
                .init(key: "redis.url", detail: detail, cure: "Use rediss://, unless nobody else is on that network")
            )
        }
        if configuration.password == nil, settings.passwordFile == nil {
            let detail = "reaches \(host) without a password, so whoever reaches it reads all devices and sends to them"
            let cure = "Make users with apus acl set, and name them with redis.user and redis.password_file"
            warnings.append(.init(key: "redis.url", detail: detail, cure: cure))
        }
        return warnings
    }

    /// Checks the admin endpoints, which ask nobody who they are unless clients need certificates.
    package static func admin(_ settings: AdminSettings) -> [ConfigurationWarning] {
        guard settings.tls?.clientCAFile == nil, !Self.isLoopback(settings.listen.host) else { return [] }
        let tls = settings.tls == nil ? ", without TLS" : ""
        let detail = "is \(settings.listen): metrics and readiness answer everybody who reaches it\(tls)"
        let cure = "Let only Prometheus and probes reach this port, or set admin.tls with client_ca_file"
        return [.init(key: "admin.listen", detail: detail, cure: cure)]
    }

    /// Checks the address of the HTTP API.
    ///
    /// - Parameter hasTLS: true when the API speaks HTTPS.
    package static func api(_ address: ListenAddress, hasTLS: Bool) -> [ConfigurationWarning] {
        guard !hasTLS, !Self.isLoopback(address.host) else { return [] }
        let detail = "is \(address) without TLS, so API keys, users' tokens and device tokens can be read on the way"
        let cure = "Set registration.tls, or let only the proxy that ends TLS reach this port"
        return [.init(key: "registration.listen", detail: detail, cure: cure)]
    }

    /// Returns true for a name or an address of this machine alone.
    private static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || host.hasPrefix("127.")
    }
}
