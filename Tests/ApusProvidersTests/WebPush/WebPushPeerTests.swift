import ApusCore
import ApusTLS
import ApusWebPush
import Foundation
import Testing

@testable import ApusProviders

/// Programs of others read what Apus encrypts and signs. `Scripts/setup` installs them into `.build/python`.
@Suite("Web Push: other readers", .timeLimit(.minutes(2)))
struct WebPushPeerTests {
    private static let python = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: ".build/python/bin/python3").path()

    /// Decrypts bodies by http_ece, and verifies a token by py_vapid, which pywebpush brings along.
    private static let program = #"""
        import base64, json, sys
        import http_ece
        from cryptography.hazmat.primitives.asymmetric import ec
        from py_vapid import Vapid02

        def raw(text): return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

        given = json.loads(sys.stdin.read())
        key = ec.derive_private_key(int.from_bytes(raw(given["key"]), "big"), ec.SECP256R1())
        contents = [
            base64.urlsafe_b64encode(
                http_ece.decrypt(raw(body), private_key=key, auth_secret=raw(given["secret"]), version="aes128gcm")
            ).decode().rstrip("=")
            for body in given["bodies"]
        ]
        print(json.dumps({"contents": contents, "verified": bool(Vapid02.verify(given["authorization"].replace(", ", ",")))}))
        """#

    private static func run(_ input: JSONValue) throws -> JSONValue {
        try #require(
            FileManager.default.isExecutableFile(atPath: Self.python),
            "\(Self.python) is not there: Scripts/setup makes it",
        )
        let process = Process()
        let (stdin, stdout) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: Self.python)
        process.arguments = ["-c", Self.program]
        process.standardInput = stdin
        process.standardOutput = stdout
        try process.run()
        try stdin.fileHandleForWriting.write(contentsOf: Data(input.bytes))
        try stdin.fileHandleForWriting.close()
        let output = try stdout.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return try JSONValue(parsing: Array(output), bytesMax: 1 << 20)
    }

    @Test func `http_ece decrypts what Apus encrypts, of every size, and py_vapid verifies its token`() throws {
        let (scalar, secret) = (SecureRandom.bytes(32), SecureRandom.bytes(16))
        let browser = try TestBrowser(privateKey: scalar, secret: secret)
        let contents = [0, 1, 15, 16, 17, 1_000, 3_992, 3_993].map { SecureRandom.bytes($0) }
        let bodies = try contents.map { try WebPushEncryption.encrypt($0, to: browser.keys) }
        let key = try VAPIDKey(file: Array(PrivateKey.generate(.p256).pem.utf8), subject: "mailto:push@apus.example")
        let now = UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))
        let token = try key.sign(for: Origin(host: "push.example"), expiresAt: now.advanced(byMilliseconds: 60_000))
        let found = try Self.run([
            "key": .string(Base64URL.encode(scalar)), "secret": .string(Base64URL.encode(secret)),
            "bodies": .array(bodies.map { .string(Base64URL.encode($0)) }),
            "authorization": .string(token.authorization),
        ])
        #expect(found["contents"]?.array?.compactMap(\.string) == contents.map { Base64URL.encode($0) })
        #expect(found["verified"]?.bool == true)
    }
}
