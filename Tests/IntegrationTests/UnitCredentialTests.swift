import ApusCore
import ApusTLS
import ApusTestKit
import Foundation
import Testing

private let analyzer = "/usr/bin/systemd-analyze"

/// Tests the advice about secrets in the units of systemd, without systemd: that each service finds its own ones by it, and needs no others.
@Suite struct UnitCredentialTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Every secret of an installation stands in the one configuration, at paths that only root may read.
    private static let configuration = """
        redis: {user: apus, password_file: /etc/apus/secrets/redis-password}
        store: {encryption_key_file: /etc/apus/secrets/records.key}
        admin: {tls: {certificate_file: CERTIFICATE, key_file: /etc/apus/secrets/admin-key.pem}}
        apps:
          shop:
            apns: {team_id: ABCDE12345, key_id: FGHIJ67890, key_file: /etc/apus/secrets/apns.p8, topic: com.example.shop}
            fcm: {project_id: shop-12345, service_account_file: /etc/apus/secrets/fcm.json}
            auth: {jwt: {algorithm: hs256, secret_file: /etc/apus/secrets/identity.key, audience: shop}}
        registration:
          tls: {certificate_file: CERTIFICATE, key_file: /etc/apus/secrets/tls-key.pem}
        feedback:
          webhook: {url: "https://hooks.example/apus", secret_file: /etc/apus/secrets/webhook-secret}

        """

    private static func unit(_ service: String) throws -> String {
        let path = Self.root.appending(path: "Scripts/deploy/systemd/\(service).service")
        return try String(contentsOf: path, encoding: .utf8)
    }

    @Test(arguments: ["apus-registration", "apus-dispatcher", "apus-feedback"])
    func `A service finds its secrets by its unit's advice, and needs those of no other service`(
        _ service: String
    ) throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let validity = CertificateValidity(from: SystemClock().now())
        let identity = try CertificateAuthority(name: "test", validity: validity)
            .issue(CertificateProfile(.server, commonName: "apus", validity: validity))
        let certificate = try folder.write("cert.pem", identity.certificateChainPEM)
        let yaml = Self.configuration.replacing("CERTIFICATE", with: certificate)
        let file = try folder.write("apus.yaml", yaml)
        let without = try OperatorProgram.run(["--check", "--config", file], program: service)
        #expect(without.code == 64)
        let missing = without.talk.matches(of: /secrets\/([a-z0-9.-]+): no such file or directory/).map { String($0.1) }

        let unit = try Self.unit(service)
        let names = unit.matches(of: /(?m)^#LoadCredential=([^:]+):\/etc\/apus\/secrets\/(\S+)$/)
        #expect(names.allSatisfy { $0.1 == $0.2 } && Set(names.map { String($0.1) }) == Set(missing), "\(without.talk)")
        // The lines are read as systemd reads them once they are no comments.
        var environment: [String: String] = [:]
        for name in names {
            let contents =
                switch name.1 {
                case "admin-key.pem", "tls-key.pem": identity.privateKeyPEM
                case "apns.p8": try CredentialTexts.signingKey
                case "fcm.json": try CredentialTexts.serviceAccount
                default: String(repeating: "0a", count: 32) + "\n"
                }
            _ = try folder.write(String(name.1), contents)
        }
        for variable in unit.matches(of: /(?m)^#Environment=([A-Z_]+)=%d\/(\S+)$/) {
            environment[String(variable.1)] = "\(folder.path)/\(variable.2)"
        }
        #expect(environment.count == names.count)
        let with = try OperatorProgram.run(["--check", "--config", file], environment: environment, program: service)
        #expect(with.code == 0, "\(with.talk)")
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: analyzer), "needs the Debian package systemd"),
        arguments: ["apus-registration", "apus-dispatcher", "apus-feedback", "apus-console"]
    )
    func `Systemd finds nothing wrong with a unit that has the secrets`(_ service: String) throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let text = try Self.unit(service).replacing("#LoadCredential", with: "LoadCredential")
            .replacing("#Environment", with: "Environment").replacing("/usr/bin/\(service)", with: "/bin/true")
        let process = Process()
        process.executableURL = URL(filePath: analyzer)
        process.arguments = ["verify", "--man=no", try folder.write("\(service).service", text)]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        // Other units of the machine are none of ours.
        let ours = said.split(separator: "\n").filter { $0.contains(service) }
        #expect(process.terminationStatus == 0 && ours.isEmpty, "\(said)")
    }
}
