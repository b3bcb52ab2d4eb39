import ApusCore
import ApusRegistration
import ApusTLS
import Testing

private let now = UnixMilliseconds(seconds: 1_800_000_000)
private let payload = #"{"sub":"anna","aud":"app","exp":1800000600}"#

/// A key of a set, as JSON.
private func jwk(_ key: PrivateKey, kid: String?, _ more: String = "") throws -> String {
    let point = try #require(key.publicKey.uncompressedPoint)
    let (x, y) = (Base64URL.encode(point[1..<33]), Base64URL.encode(point[33...]))
    let name = kid.map { #""kid":"\#($0)","# } ?? ""
    return #"{"kty":"EC","crv":"P-256",\#(name)"x":"\#(x)","y":"\#(y)"\#(more)}"#
}

private func set(_ keys: [String]) -> [UInt8] { Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8) }

private func bearer(_ key: PrivateKey, kid: String?) throws -> String {
    let name = kid.map { #","kid":"\#($0)""# } ?? ""
    return "Bearer " + (try JWS.sign(header: #"{"alg":"ES256"\#(name)}"#, payload: payload, with: .privateKey(key)))
}

private func cause(_ authorization: String, _ keys: IssuerKeys) throws -> AuthenticationCause? {
    let issuer = AppCredentials.Issuer(algorithm: .es256, keys: keys, audience: "app")
    let authenticator = Authenticator([try AppID("shop"): AppCredentials(keys: [], issuer: issuer)])
    do throws(AuthenticationFailure) {
        _ = try authenticator.authenticate(authorization, app: "shop", now: now)
        return nil
    } catch {
        return error.cause
    }
}

@Suite struct IssuerKeysTests {
    @Test func aTokenChoosesItsKeyByName() throws {
        let (one, two) = (try PrivateKey.generate(.p256), try PrivateKey.generate(.p256))
        let keys = try IssuerKeys(keySet: set([try jwk(one, kid: "1"), try jwk(two, kid: "2")]), for: .es256)
        #expect(try cause(bearer(one, kid: "1"), keys) == nil)
        #expect(try cause(bearer(two, kid: "2"), keys) == nil)
        #expect(try cause(bearer(one, kid: "2"), keys) == .signature)
        #expect(try cause(bearer(one, kid: "3"), keys) == .key)
        // The token does not say which of two keys it is.
        #expect(try cause(bearer(one, kid: nil), keys) == .key)
    }

    @Test func oneKeyNeedsNoName() throws {
        let one = try PrivateKey.generate(.p256)
        let named = try IssuerKeys(keySet: set([try jwk(one, kid: "1")]), for: .es256)
        #expect(try cause(bearer(one, kid: nil), named) == nil)
        #expect(try cause(bearer(one, kid: "2"), named) == .key)
        let nameless = try IssuerKeys(keySet: set([try jwk(one, kid: nil)]), for: .es256)
        #expect(try cause(bearer(one, kid: nil), nameless) == nil)
        #expect(try cause(bearer(one, kid: "7"), nameless) == nil)
        #expect(try cause(bearer(PrivateKey.generate(.p256), kid: nil), nameless) == .signature)
    }

    @Test func whatIsMeantForSomethingElseIsLeftOut() throws {
        let (one, two) = (try PrivateKey.generate(.p256), try PrivateKey.generate(.p256))
        let secret = #"{"kty":"oct","kid":"s","k":"\#(Base64URL.encode([UInt8](repeating: 7, count: 32)))"}"#
        let rsa = #"{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"}"#
        let others = [
            secret, rsa, try jwk(two, kid: "2", #","use":"enc""#), try jwk(two, kid: "3", #","alg":"ES384""#),
        ]
        let meant = try jwk(one, kid: "1", #","use":"sig","alg":"ES256""#)
        let keys = try IssuerKeys(keySet: set(others + [meant]), for: .es256)
        #expect(try cause(bearer(one, kid: "1"), keys) == nil)
        #expect(try cause(bearer(two, kid: "2"), keys) == .key)
        #expect(try cause(bearer(two, kid: "3"), keys) == .key)
        // A secret in a set of public keys opens nothing, whatever a token says.
        let header = #"{"alg":"HS256","kid":"s"}"#
        let forged = try JWS.sign(
            header: header,
            payload: payload,
            with: .sharedSecret([UInt8](repeating: 7, count: 32)),
        )
        #expect(try cause("Bearer \(forged)", keys) == .key)
        #expect(throws: KeySetError.self) { try IssuerKeys(keySet: set([secret]), for: .hs256) }
    }

    @Test func aBrokenSetSaysWhatIsWrong() throws {
        let key = try jwk(PrivateKey.generate(.p256), kid: "1")
        let nameless = try jwk(PrivateKey.generate(.p256), kid: nil)
        let table: [([UInt8], String)] = [
            (Array("{".utf8), "the text ends in the middle of a value at byte 1"),
            (Array("{}".utf8), "there is no member \"keys\""),
            (set([]), "it has no key for ES256"),
            (set([key, key]), "keys[1] has the kid of another"),
            (set([#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#]), "keys[0] is not a key for ES256"),
            (set([nameless, nameless]), "it has several keys for ES256, none of them with a kid"),
            (set(Array(repeating: "{}", count: 101)), "it has more than 100 keys"),
        ]
        for (bytes, expected) in table {
            let error = #expect(throws: KeySetError.self) { try IssuerKeys(keySet: bytes, for: .es256) }
            #expect(error?.description.hasPrefix(expected) == true, "\(error?.description ?? "")")
        }
    }
}
