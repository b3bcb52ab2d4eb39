internal import ApusService

/// The credentials that authenticate us to APNs.
package enum APNsCredentialSettings: Hashable, Sendable {
    /// A team's signing key: its team id, key id and `.p8` file.
    case key(teamID: String, keyID: String, file: String)
    /// A client certificate: PEM with the chain and, unless another file holds it, the key; or PKCS#12 and the file of its password.
    case certificate(file: String, keyFile: String?, passwordFile: String?)

    /// Reads an app's credential.
    init(_ reader: SettingsReader, at key: String) {
        let isCertificate = reader.string("\(key).certificate_file") != nil
        let keyFile = reader.filePath("\(key).certificate_key_file")
        let passwordFile = reader.filePath("\(key).certificate_password_file")
        guard isCertificate else {
            for (name, file) in [("certificate_key_file", keyFile), ("certificate_password_file", passwordFile)]
            where file != nil {
                reader.issue("\(key).\(name)", "can be given only with certificate_file")
            }
            self = .key(
                teamID: reader.requiredString("\(key).team_id", Self.tenCharacters),
                keyID: reader.requiredString("\(key).key_id", Self.tenCharacters),
                file: reader.requiredFilePath("\(key).key_file"),
            )
            return
        }
        for name in ["team_id", "key_id", "key_file", "key_environment"] where reader.string("\(key).\(name)") != nil {
            reader.issue("\(key).\(name)", "excludes certificate_file: give one or the other")
        }
        self = .certificate(
            file: reader.requiredFilePath("\(key).certificate_file"),
            keyFile: keyFile,
            passwordFile: passwordFile,
        )
    }

    /// Reads a key of the same team that is for the sandbox alone; nil when there is none.
    init?(_ reader: SettingsReader, sandboxAt key: String, beside other: APNsCredentialSettings) {
        let keyID = reader.string("\(key).sandbox_key_id", Self.tenCharacters)
        let file = reader.filePath("\(key).sandbox_key_file")
        switch (keyID, file) {
        case (nil, nil): return nil
        case (let keyID?, let file?):
            guard case .key(let teamID, _, _) = other else {
                reader.issue("\(key).sandbox_key_id", "excludes certificate_file")
                return nil
            }
            self = .key(teamID: teamID, keyID: keyID, file: file)
        case (.some, nil), (nil, .some):
            reader.issue("\(key).sandbox_key_id", "and sandbox_key_file must be given together")
            return nil
        }
    }

    private static let tenCharacters = SettingRule("must be 10 characters A-Z and 0-9") { text in
        text.utf8.count == 10
            && text.utf8.allSatisfy { (0x41...0x5a).contains($0) || (0x30...0x39).contains($0) }
    }
}
