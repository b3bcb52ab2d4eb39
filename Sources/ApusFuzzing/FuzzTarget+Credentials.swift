internal import ApusCore
internal import ApusFCM
internal import ApusRegistration
internal import ApusTLS

/// Tokens, keys and certificates.
extension FuzzTarget {
    private static let now = UnixMilliseconds(seconds: 1_700_000_000)
    private static let secret = "0123456789abcdef0123456789abcdef".bytes
    private static let header = #"{"alg":"HS256","typ":"JWT"}"#
    private static let validClaims = #"{"sub":"ada","aud":"shop-app","exp":1700003600}"#

    /// Signs claims as the app's identity provider does.
    private static func token(_ claims: [UInt8]) -> String {
        guard
            let token = try? JWS.sign(header: Self.header.bytes, payload: claims, with: .sharedSecret(Self.secret))
        else { preconditionFailure("the header names the algorithm") }
        return token
    }

    /// Returns the user whom a token proves; nil when it proves none.
    private static func user(of token: String) -> UserID? {
        let issuer = AppCredentials.Issuer(
            algorithm: .hs256,
            keys: IssuerKeys(.sharedSecret(Self.secret)),
            audience: "shop-app"
        )
        guard let app = try? AppID("shop") else { return nil }
        let authenticator = Authenticator([app: AppCredentials(keys: [], issuer: issuer)])
        guard let found = try? authenticator.authenticate("Bearer \(token)", app: "shop", now: Self.now) else {
            return nil
        }
        guard case .user(let user) = found.caller else { return nil }
        return user
    }

    static let credentials = [
        FuzzTarget(
            "jwt",
            words: [".", "=", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJib2IifQ"],
            seeds: [Self.token(Self.validClaims.bytes).bytes, Self.token("{}".bytes).bytes]
        ) { input in
            guard let text = input.validText, let user = Self.user(of: text) else { return }
            // The signature may have its padding.
            let unpadded = text.last == "=" ? String(text.dropLast()) : text
            try require(unpadded == Self.token(Self.validClaims.bytes), "another token is \(user)'s: \(text)")
        },
        FuzzTarget(
            "jwt-claims",
            words: Self.jsonWords + [
                "\"sub\":", "\"aud\":", "\"exp\":", "\"nbf\":", "\"iat\":", "\"iss\":", "\"shop-app\"", "1700003600",
                "1e300",
            ],
            seeds: [
                Self.validClaims.bytes,
                #"{"sub":"ada","aud":["x","shop-app"],"exp":1700003600.5,"nbf":1699999999}"#.bytes,
            ]
        ) { input in
            guard let user = Self.user(of: Self.token(input)) else { return }
            let claims = try JSONValue(parsing: input, bytesMax: 65_536)
            try require(claims["sub"]?.string == user.text, "the user is \(user)")
            try require(claims["exp"] != nil, "a token without an end is taken")
        },
        FuzzTarget(
            "jose-header",
            words: Self.jsonWords + ["\"alg\":", "\"kid\":", "\"crit\":", "\"HS256\"", "\"none\""],
            seeds: [
                #"{"alg":"ES256","kid":"k1","typ":"JWT"}"#.bytes,
                #"{"alg":"RS256","x":{"y":[1,"z"]},"crit":["b64"]}"#.bytes,
            ]
        ) { input in
            guard let header = try? JOSEHeader(json: input) else { return }
            // Two readers of the same bytes must see the same algorithm.
            guard let value = try? JSONValue(parsing: input, bytesMax: 65_536) else { return }
            try require(value["alg"]?.string == header.algorithm, "two readers see two algorithms")
        },
        FuzzTarget(
            "key-set",
            words: Self.jsonWords + [
                "\"keys\":[", "\"kty\":\"EC\"", "\"crv\":\"P-256\"", "\"kty\":\"RSA\"", "\"n\":", "\"e\":\"AQAB\"",
                "\"kid\":", "\"use\":\"sig\"",
            ],
            seeds: [
                #"{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#
                    .bytes,
                #"{"keys":[{"kty":"RSA","kid":"2","n":"sXchDaQebHnPiGvyDOAT4saGEUetSyo9MKLOoWFsueri23bOdgWp4Dy1Wl","e":"AQAB"}]}"#
                    .bytes,
            ]
        ) { input in
            for algorithm in [JWSAlgorithm.es256, .rs256] { _ = try? IssuerKeys(keySet: input, for: algorithm) }
        },
        FuzzTarget("certificate", seeds: [Self.certificate]) { input in
            guard let certificate = try? Certificate(pem: Self.pem("CERTIFICATE", input)) else { return }
            _ = AppleCertificate(certificate)
        },
        FuzzTarget(
            "certificate-pem",
            words: ["-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"],
            seeds: [Self.pem("CERTIFICATE", Self.certificate).bytes]
        ) { input in
            guard let text = input.validText else { return }
            _ = try? Certificate(pem: text)
        },
        FuzzTarget(
            "private-key",
            seeds: [Self.pem("PRIVATE KEY", Self.privateKey).bytes, Self.privateKey]
        ) { input in
            _ = try? PrivateKey(pemBytes: input)
            _ = try? PrivateKey(pemBytes: Self.pem("PRIVATE KEY", input).bytes)
        },
        FuzzTarget("public-point", seeds: [[4] + [UInt8](repeating: 7, count: 64)]) { input in
            guard let key = try? PublicKey(uncompressedPoint: input) else { return }
            try require(input.count == 65 && key.kind == .p256, "a key of \(input.count) bytes")
        },
        FuzzTarget("pkcs12", seeds: [Self.pkcs12]) { input in
            _ = try? TLSIdentity(pkcs12: input, password: "p")
        },
        FuzzTarget(
            "service-account",
            words: Self.jsonWords + [
                "\"type\":\"service_account\"", "\"project_id\":", "\"private_key\":", "\"client_email\":",
                "\"token_uri\":",
            ],
            seeds: [
                #"{"type":"service_account","project_id":"demo-12345","private_key_id":"1","private_key":"x","client_email":"a@b.c","token_uri":"https://oauth2.googleapis.com/token"}"#
                    .bytes
            ]
        ) { input in
            _ = try? ServiceAccount(json: input)
        },
    ]

    // MARK: Samples

    /// The key of RFC 6979, A.2.5, as PKCS#8.
    private static let privateKey = Self.bytes(
        base64: """
            MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgya-p2EW6dRZrXCFXZ7HWk05Qw9s26JsSe4piKxIPZyGhRANCAARg_tS6JVqdMclh63TGNW1o\
            wEm4kjth-mzmaWIuYPKftnkD_hAIuLyZpBrp6VYovGTy8bIMLX6fUXejwpTURiKZ
            """
    )
    /// A certificate of that key with the topics of Apple's push service.
    private static let certificate = Self.bytes(
        base64: """
            MIICMzCCAdmgAwIBAgIUT4adzQO2FVWsUZPK957zKJ70sC0wCgYIKoZIzj0EAwIwUDEfMB0GCgmSJomT8ixkAQEMD2NvbS5leGFtcGxlLmFwcDEtMCsGA1UE\
            AwwkQXBwbGUgUHVzaCBTZXJ2aWNlczogY29tLmV4YW1wbGUuYXBwMB4XDTI2MTEyNTE0NDQxOVoXDTM2MTEyMjE0NDQxOVowUDEfMB0GCgmSJomT8ixkAQEM\
            D2NvbS5leGFtcGxlLmFwcDEtMCsGA1UEAwwkQXBwbGUgUHVzaCBTZXJ2aWNlczogY29tLmV4YW1wbGUuYXBwMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\
            YP7UuiVanTHJYet0xjVtaMBJuJI7Yfps5mliLmDyn7Z5A_4QCLi8maQa6elWKLxk8vGyDC1-n1F3o8KU1EYimaOBkDCBjTAdBgNVHQ4EFgQUGpVpV5vOMpqU\
            LQdpycC1ZDFWNxAwHwYDVR0jBBgwFoAUGpVpV5vOMpqULQdpycC1ZDFWNxAwDwYDVR0TAQH_BAUwAwEB_zAoBgoqhkiG92NkBgMGBBowGAwPY29tLmV4YW1w\
            bGUuYXBwMAUMA2FwcDAQBgoqhkiG92NkBgMCBAIFADAKBggqhkjOPQQDAgNIADBFAiEAxbCwFHBEhmFib5zI01yV1aTHFn_bBQP4FsBaPT8PB8ACIB-1xncT\
            mq_Vudt_PnJsgNZYMtQ82xfiiOilP-O3xZ_u
            """
    )
    /// Both, with the password "p" and one iteration.
    private static let pkcs12 = Self.bytes(
        base64: """
            MIIEtgIBAzCCBHAGCSqGSIb3DQEHAaCCBGEEggRdMIIEWTCCAxEGCSqGSIb3DQEHBqCCAwIwggL-AgEAMIIC9wYJKoZIhvcNAQcBMFYGCSqGSIb3DQEFDTBJ\
            MCgGCSqGSIb3DQEFDDAbBAinZJ1_lZoo9AIBATAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQ0qmyd7G0NhsaWzuQcVRdGoCCApAvZPe5Th-vGWzh7gdU\
            0YVd7lzjdFUSV0ZofP3kUcKaX3nLTqEfwLWmTY-REdxIUrqSdYSP8KB07YvG3pFBgVjgr4Xwq131wXy2nLX-boI6tKhnUREdRTsITbhOVUCOcmYIU8hWCz51\
            92HUsSvTWv8e9D9tfCgJrOMXu0VIR5AI_DWv-AobGqczEvZ_Qp2DWtj0I7LJFGHyrLz1k8vEvh1uGdXYWDZ2ahl--mRlpiWTYHUy40J2f5D6a6xpMI4MZRRj\
            ua0MJvusE-YCVxmKwwYfNonTvI-Jhs2nj0ce4jotMqSOVY_jmooUvx2CdLVFKezgziFgwfjqEq6DykAXBssufZW8eHizuwugarMO39-CwWgxoV74MDj6kSeQ\
            kScxe8veZAGlSE3r1HKXIeNs2UnDuS_cCJVeL8UVrTHiYZ-GeocVh_j2sZiWtlPQb5RHw9sGNxGtvWdACqX0qvmGvDqMtiNYNz4j3DkCOqBiKAXqm46yzJQa\
            1JZ9tLirZwNww3KixgvRx6rpBVH_O6Xp31K0oKItrylq-yVkNJsGxEdTDTI-deuBjom8zdatiDt9T4IbO7xY3kuE-BlmISHW6sUtrJWIB0O2vDLxcnXMWaQn\
            QPgAQB241ThzSaJQ5LpYildq2nZa-nauT96gs3Yo3bZ6MDLXJiru0WGBsp1kzAMQnphT1LzgniMBe5tbRfn5E4A9c9_35xzEpeXMHF2SribW880Yx5-V-VgY\
            3PuerTIEqFB-XNHvcxnVEqVJyD5s0s5PYl72OS5yqiySPTU656EMbB0XSgj0-Enh9RiDqsbLQamJzcEGwhMoBc5Y0T-8dN2twZart5_O6sdP6Y0CFNVp0ZRf\
            EbNtQETajs4Sbt0uDzCCAUAGCSqGSIb3DQEHAaCCATEEggEtMIIBKTCCASUGCyqGSIb3DQEMCgECoIHuMIHrMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEF\
            DDAbBAiKY_z0nnScugIBATAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQ5oZ9eSmvljpnIlzCPOpu2ASBkCbSJEFedDllCje-vPCmO-JQr_QEcq-YTw4k\
            aMkFquhcj2NuOOKtOKxG7-v3N9HfIiWso0B_TukZXkBaCwwliPexAnraiHwTReMnUXeQv7wk0aRDsaqnCQli27lDjPWKtiHTYbP3w_maV8s0RL5cxELYJJ0x\
            6RDv2Necb1-n-e4iAl-SSEQbwUtK-TVKsrEsRzElMCMGCSqGSIb3DQEJFTEWBBQWLliCUClDFrICW9Z00eBKNVpTtjA9MDEwDQYJYIZIAWUDBAIBBQAEIIi8\
            MlCbpMCaFgf2FdVrZEHQsJpQZo5ipBDDG67v2FaXBAhZim8bpIupHg
            """
    )

    private static func bytes(base64 text: String) -> [UInt8] {
        guard let bytes = Base64URL.decode(text) else { preconditionFailure("a sample is not base64url") }
        return bytes
    }

    /// Writes bytes as a block of PEM.
    private static func pem(_ label: String, _ bytes: [UInt8]) -> String {
        var text = String(Base64URL.encode(bytes).map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
        while text.utf8.count % 4 != 0 { text += "=" }
        var lines: [Substring] = []
        var rest = text[...]
        while !rest.isEmpty {
            lines.append(rest.prefix(64))
            rest = rest.dropFirst(64)
        }
        return "-----BEGIN \(label)-----\n" + lines.map { $0 + "\n" }.joined() + "-----END \(label)-----\n"
    }
}
