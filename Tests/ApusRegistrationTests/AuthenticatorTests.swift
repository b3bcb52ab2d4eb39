import ApusCore
import ApusRegistration
import ApusService
import ApusTLS
import Testing

private let now = UnixMilliseconds(seconds: 1_800_000_000)
private let ecKey = try? PrivateKey.generate(.p256)
private let rsaKey = try? PrivateKey.generate(.rsa2048)
private let secret = Array("0123456789abcdef0123456789abcdef".utf8)

/// Holds the identified caller, or the reason of a refusal.
private enum Verdict: Equatable {
    case backend(String)
    case user(String)
    case refused(AuthenticationCause)
}

private struct TestCredentials {
    let authenticator: Authenticator
    let ec: PrivateKey
    let rsa: PrivateKey

    init() throws {
        self.ec = try #require(ecKey)
        self.rsa = try #require(rsaKey)
        let keys = [
            AppCredentials.Key(name: "backend", sha256: SHA256.hash(utf8: "register-key"), role: .register),
            AppCredentials.Key(name: "operator", sha256: SHA256.hash(utf8: "admin-key"), role: .admin),
            AppCredentials.Key(name: "sender", sha256: SHA256.hash(utf8: "publish-key"), role: .publish),
        ]
        func issuer(_ algorithm: JWSAlgorithm, _ key: VerificationKey) -> AppCredentials.Issuer {
            AppCredentials.Issuer(
                algorithm: algorithm,
                keys: IssuerKeys(key),
                audience: "app",
                name: "https://id.example",
            )
        }
        self.authenticator = Authenticator([
            try AppID("ec"): AppCredentials(keys: keys, issuer: issuer(.es256, .publicKey(self.ec.publicKey))),
            try AppID("rsa"): AppCredentials(keys: [], issuer: issuer(.rs256, .publicKey(self.rsa.publicKey))),
            try AppID("hs"): AppCredentials(keys: [], issuer: issuer(.hs256, .sharedSecret(secret))),
            try AppID("keys"): AppCredentials(keys: keys),
        ])
    }

    func verdict(_ authorization: String?, app: String) -> Verdict {
        do throws(AuthenticationFailure) {
            switch try self.authenticator.authenticate(authorization, app: app, now: now).caller {
            case .backend(let key, _): return .backend(key)
            case .user(let user): return .user(user.text)
            }
        } catch {
            return .refused(error.cause)
        }
    }

    func isAdmitted(_ authorization: String, app: String, to access: Access) -> Bool {
        do throws(AuthenticationFailure) {
            _ = try self.authenticator.authenticate(authorization, app: app, access: access, now: now)
            return true
        } catch {
            return error.cause != .role
        }
    }

    func failure(_ authorization: String?, app: String) throws -> AuthenticationFailure {
        do throws(AuthenticationFailure) {
            _ = try self.authenticator.authenticate(authorization, app: app, now: now)
        } catch {
            return error
        }
        throw TLSTestError.wasAccepted
    }
}

private enum TLSTestError: Error { case wasAccepted }

private func claims(
    sub: String = #""anna""#,
    aud: String = #""app""#,
    iss: String = #""https://id.example""#,
    exp: String? = "1800000600",
    nbf: String? = nil,
) -> String {
    var members = [#""sub":\#(sub)"#, #""aud":\#(aud)"#, #""iss":\#(iss)"#]
    if let exp { members.append(#""exp":\#(exp)"#) }
    if let nbf { members.append(#""nbf":\#(nbf)"#) }
    return "{\(members.joined(separator: ","))}"
}

private func sign(_ payload: String, _ key: SigningKey) throws -> String {
    "Bearer "
        + (try JWS.sign(header: #"{"alg":"\#(key.algorithm.rawValue)","typ":"JWT"}"#, payload: payload, with: key))
}

@Suite struct AuthenticatorTests {
    @Test func keysOpenOnlyTheirAppAndOnlyForTheirRole() throws {
        let credentials = try TestCredentials()
        let table: [(String?, String, Verdict)] = [
            ("Bearer register-key", "keys", .backend("backend")),
            ("bearer register-key", "keys", .backend("backend")),
            ("Bearer admin-key", "ec", .backend("operator")),
            ("Bearer publish-key", "keys", .refused(.role)),
            ("Bearer register-key", "hs", .refused(.key)),
            ("Bearer register-ke", "keys", .refused(.key)),
            ("Bearer register-keyy", "keys", .refused(.key)),
            ("Bearer register-key", "nowhere", .refused(.unknownApp)),
            ("Bearer register-key", "No Such App", .refused(.unknownApp)),
            (nil, "keys", .refused(.missing)),
            (nil, "nowhere", .refused(.missing)),
            ("", "keys", .refused(.malformed)),
            ("Bearer", "keys", .refused(.malformed)),
            ("Bearer ", "keys", .refused(.malformed)),
            ("Basic register-key", "keys", .refused(.malformed)),
            ("Bearer register-key, Bearer register-key", "keys", .refused(.malformed)),
            ("Bearer " + String(repeating: "a", count: 16 * 1_024), "keys", .refused(.key)),
            ("Bearer " + String(repeating: "a", count: 16 * 1_024 + 1), "keys", .refused(.malformed)),
        ]
        for (authorization, app, expected) in table {
            #expect(credentials.verdict(authorization, app: app) == expected, "\(authorization ?? "none") for \(app)")
        }
    }

    @Test func aTokenOfTheIdentityProviderNamesItsUser() throws {
        let credentials = try TestCredentials()
        #expect(credentials.verdict(try sign(claims(), .privateKey(credentials.ec)), app: "ec") == .user("anna"))
        #expect(credentials.verdict(try sign(claims(), .privateKey(credentials.rsa)), app: "rsa") == .user("anna"))
        #expect(credentials.verdict(try sign(claims(), .sharedSecret(secret)), app: "hs") == .user("anna"))
    }

    @Test func claimsDecide() throws {
        let credentials = try TestCredentials()
        let table: [(String, Verdict)] = [
            (claims(aud: #"["other","app"]"#), .user("anna")),
            (claims(aud: #""other""#), .refused(.audience)),
            (claims(aud: #"["other"]"#), .refused(.audience)),
            (claims(aud: "[]"), .refused(.audience)),
            (claims(aud: #"["app",1]"#), .refused(.malformed)),
            (claims(iss: #""https://evil.example""#), .refused(.issuer)),
            (claims(iss: "7"), .refused(.malformed)),
            (#"{"sub":"anna","aud":"app","exp":1800000600}"#, .refused(.issuer)),
            (claims(exp: nil), .refused(.expired)),
            (claims(exp: "1799999940"), .refused(.expired)),
            (claims(exp: "1799999940.5"), .user("anna")),
            (claims(exp: "1799999941"), .user("anna")),
            (claims(exp: #""1800000600""#), .refused(.malformed)),
            (claims(exp: "1e400"), .refused(.malformed)),
            (claims(nbf: "1800000060"), .user("anna")),
            (claims(nbf: "1800000061"), .refused(.notYetValid)),
            (claims(sub: #""""#), .refused(.subject)),
            (claims(sub: #""an na""#), .refused(.subject)),
            (claims(sub: #""\#(String(repeating: "u", count: 129))""#), .refused(.subject)),
            (claims(sub: #""\#(String(repeating: "u", count: 128))""#), .user(String(repeating: "u", count: 128))),
            (claims(sub: "null"), .refused(.malformed)),
            (#"{"aud":"app","iss":"https://id.example","exp":1800000600}"#, .refused(.subject)),
            (#"["sub"]"#, .refused(.malformed)),
            ("sub", .refused(.malformed)),
        ]
        for (payload, expected) in table {
            #expect(credentials.verdict(try sign(payload, .sharedSecret(secret)), app: "hs") == expected, "\(payload)")
        }
    }

    @Test func theConfigurationFixesTheAlgorithmNeverTheToken() throws {
        let credentials = try TestCredentials()
        func text(_ json: String) -> String { Base64URL.encode(Array(json.utf8)) }
        let none = "Bearer \(text(#"{"alg":"none"}"#)).\(text(claims()))."
        for app in ["ec", "rsa", "hs"] { #expect(credentials.verdict(none, app: app) == .refused(.algorithm)) }
        #expect(credentials.verdict(none, app: "keys") == .refused(.key))
        let noneInDisguise = "Bearer \(text(#"{"alg":"ES256"}"#)).\(text(claims()))."
        #expect(credentials.verdict(noneInDisguise, app: "ec") == .refused(.signature))
        // Key confusion: the public key, which everybody may have, as the secret of an HMAC.
        for (key, app) in [(credentials.ec, "ec"), (credentials.rsa, "rsa")] {
            let forged = try sign(claims(), .sharedSecret(Array(key.publicKey.pem.utf8)))
            #expect(credentials.verdict(forged, app: app) == .refused(.algorithm))
        }
        #expect(
            credentials.verdict(try sign(claims(), .privateKey(credentials.rsa)), app: "ec") == .refused(.algorithm)
        )
        let stranger = try PrivateKey.generate(.p256)
        #expect(credentials.verdict(try sign(claims(), .privateKey(stranger)), app: "ec") == .refused(.signature))
        let genuine = try sign(claims(), .privateKey(credentials.ec))
        let parts = genuine.split(separator: ".")
        let swapped = "\(parts[0]).\(text(claims(sub: #""bert""#))).\(parts[2])"
        #expect(credentials.verdict(swapped, app: "ec") == .refused(.signature))
        #expect(credentials.verdict(genuine + ".x", app: "ec") == .refused(.malformed))
        #expect(credentials.verdict(genuine + "=", app: "ec") == .refused(.malformed))
    }

    @Test func rolesSayWhatAKeyIsFor() throws {
        let credentials = try TestCredentials()
        let token = try sign(claims(), .privateKey(credentials.ec))
        let table: [(String, Set<Access>)] = [
            ("Bearer register-key", [.everyone, .devices, .backends]),
            ("Bearer publish-key", [.everyone, .publishers, .testers]),
            ("Bearer admin-key", [.everyone, .devices, .backends, .publishers, .testers]),
            (token, [.everyone, .devices, .testers]),
        ]
        for (authorization, allowed) in table {
            for access in Access.allCases {
                let isAdmitted = credentials.isAdmitted(authorization, app: "ec", to: access)
                #expect(isAdmitted == allowed.contains(access), "\(authorization.prefix(20)) \(access)")
            }
        }
    }

    @Test func storedKeysOpenTheirAppUntilTheyAreGone() throws {
        let credentials = try TestCredentials()
        let key = AppCredentials.Key(name: "made", sha256: SHA256.hash(utf8: "made-key"), role: .register)
        let app = try AppID("hs")
        let with = credentials.authenticator.with(storedKeys: [app: [key]])
        let caller = try with.authenticate("Bearer made-key", app: "hs", now: now).caller
        #expect(caller == .backend(key: "made", role: .register))
        for authenticator in [credentials.authenticator, with.with(storedKeys: [:])] {
            #expect(throws: AuthenticationFailure.self) {
                try authenticator.authenticate("Bearer made-key", app: "hs", now: now)
            }
        }
        #expect(throws: AuthenticationFailure.self) { try with.authenticate("Bearer made-key", app: "keys", now: now) }
    }

    @Test func keysThatWereNeverReadAreNotCalledWrong() throws {
        let (hs, keys) = (try AppID("hs"), try AppID("keys"))
        let unread = Authenticator([
            hs: AppCredentials(keys: [], issuer: nil), keys: AppCredentials(keys: [], issuer: nil),
        ])
        func cause(_ authenticator: Authenticator, _ token: String, _ app: String) -> AuthenticationCause? {
            do throws(AuthenticationFailure) {
                _ = try authenticator.authenticate("Bearer \(token)", app: app, now: now)
                return nil
            } catch {
                return error.cause
            }
        }
        let half = unread.with(storedKeys: [hs: []])
        // The app that is not there looks like the others.
        for app in ["hs", "keys", "nowhere"] {
            #expect(cause(unread, "apus_made-key", app) == .keysUnread)
            #expect(cause(half, "apus_made-key", app) == .keysUnread)
        }
        let key = AppCredentials.Key(name: "made", sha256: SHA256.hash(utf8: "apus_made-key"), role: .register)
        #expect(cause(unread.with(storedKeys: [hs: [key]]), "apus_made-key", "hs") == nil)
        // No stored key has this form.
        #expect(cause(unread, "other", "hs") == .key)
        let read = unread.with(storedKeys: [hs: [], keys: []])
        #expect(cause(read, "apus_made-key", "hs") == .key)
        #expect(cause(read, "apus_made-key", "nowhere") == .unknownApp)
    }

    @Test func theLeewayIsTheConfigurations() throws {
        let keys = IssuerKeys(.sharedSecret(secret))
        let issuer = AppCredentials.Issuer(algorithm: .hs256, keys: keys, audience: "app", leewaySeconds: 5)
        let authenticator = Authenticator([try AppID("hs"): AppCredentials(keys: [], issuer: issuer)])
        let table = [("1799999995", false), ("1799999996", true), ("1800000001", true)]
        for (end, isValid) in table {
            let token = try sign(claims(exp: end), .sharedSecret(secret))
            let caller = try? authenticator.authenticate(token, app: "hs", now: now).caller
            #expect((caller != nil) == isValid, "exp \(end)")
        }
    }

    @Test func whatProvesNothingLearnsNothing() throws {
        let credentials = try TestCredentials()
        let unknown = try credentials.failure("Bearer register-kex", app: "nowhere").detail
        let stranger = try sign(claims(), .privateKey(try PrivateKey.generate(.p256)))
        #expect(try credentials.failure("Bearer register-kex", app: "keys").detail == unknown)
        #expect(try credentials.failure(stranger, app: "ec").detail == unknown)
        #expect(try credentials.failure(stranger, app: "rsa").detail == unknown)
        #expect(try credentials.failure(stranger, app: "nowhere").detail == unknown)
        #expect(try credentials.failure(nil, app: "keys") == credentials.failure(nil, app: "nowhere"))
        // The holder of a genuine token may know its fault.
        let expired = try sign(claims(exp: "1"), .privateKey(credentials.ec))
        #expect(try credentials.failure(expired, app: "ec").detail == "the token has expired")
    }
}
