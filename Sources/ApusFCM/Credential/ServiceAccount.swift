package import ApusCore
package import ApusProviders
internal import ApusTLS

/// A Google service account, as downloaded from the Firebase console.
///
/// Source: https://developers.google.com/identity/protocols/oauth2/service-account
package struct ServiceAccount: Sendable {
    /// Whose project messages go to.
    package let projectID: String
    /// Who signs.
    package let clientEmail: String
    /// Which of the account's keys; nil when the file does not say.
    package let privateKeyID: String?
    /// Where tokens are asked for.
    package let tokenURI: String
    private let key: PrivateKey

    /// Bytes of a file.
    package static let bytesMax = 64 * 1_024
    /// What an access token may do: send messages.
    package static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// Where tokens are asked for when the file does not say.
    package static let tokenURIDefault = "https://oauth2.googleapis.com/token"
    /// Seconds that an assertion lives; Google takes no more.
    package static let assertionSeconds: Int64 = 3_600

    /// Reads the file's contents. Every error names the member that is wrong, and none its value.
    package init(json bytes: [UInt8]) throws(ProvidersError) {
        let json: JSONValue
        do throws(JSONError) {
            json = try JSONValue(parsing: bytes, bytesMax: Self.bytesMax)
        } catch {
            throw ProvidersError(.malformedServiceAccount, "not JSON: \(error)")
        }
        if let type = json["type"]?.string, type != "service_account" {
            throw ProvidersError(.malformedServiceAccount, "type must be service_account")
        }
        self.projectID = try Self.text("project_id", in: json)
        try Self.checkProjectID(self.projectID)
        self.clientEmail = try Self.text("client_email", in: json)
        self.privateKeyID = json["private_key_id"]?.string
        self.tokenURI = json["token_uri"]?.string ?? Self.tokenURIDefault
        guard Self.endpoint(self.tokenURI) != nil else {
            throw ProvidersError(.malformedServiceAccount, "token_uri must be an https URL")
        }
        self.key = try .provider(pem: Array(try Self.text("private_key", in: json).utf8))
        guard self.key.kind == .rsa else {
            throw ProvidersError(.unsuitableKey, "private_key must be an RSA key")
        }
    }

    private static func text(_ name: String, in json: JSONValue) throws(ProvidersError) -> String {
        guard let text = json[name]?.string, !text.isEmpty else {
            throw ProvidersError(.malformedServiceAccount, "\(name) is missing")
        }
        return text
    }

    /// It stands in a path: letters, digits and what domain-scoped projects have besides.
    private static func checkProjectID(_ text: String) throws(ProvidersError) {
        let valid = text.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2e || byte == 0x3a
        }
        guard valid, (1...100).contains(text.utf8.count), text.utf8.first != 0x2e else {
            throw ProvidersError(.invalidIdentifier, "project_id must be a project's id or number")
        }
    }

    private static func endpoint(_ uri: String) -> (authority: String, path: String)? {
        guard FieldRules.isHTTPS(uri), uri.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), !uri.contains("@"),
            !uri.contains("#")
        else { return nil }
        let rest = uri.dropFirst(8)
        guard let slash = rest.firstIndex(of: "/") else { return (String(rest), "/") }
        return slash == rest.startIndex ? nil : (String(rest[..<slash]), String(rest[slash...]))
    }

    /// Host, and port if one is said, of ``tokenURI``.
    package var tokenAuthority: String { Self.endpoint(self.tokenURI)?.authority ?? "" }
    /// Path of ``tokenURI``.
    package var tokenPath: String { Self.endpoint(self.tokenURI)?.path ?? "/" }
    /// Path of the endpoint that takes messages.
    package var sendPath: String { "/v1/projects/\(self.projectID)/messages:send" }

    /// Signs the assertion that is changed for an access token.
    package func assertion(issuedAt: UnixMilliseconds) throws(ProvidersError) -> String {
        var header: JSONObject = ["alg": "RS256", "typ": "JWT"]
        if let privateKeyID { header["kid"] = .string(privateKeyID) }
        let claims: JSONValue = [
            "iss": .string(self.clientEmail), "scope": .string(Self.scope), "aud": .string(self.tokenURI),
            "iat": .integer(issuedAt.seconds), "exp": .integer(issuedAt.seconds + Self.assertionSeconds),
        ]
        do throws(TLSError) {
            return try JWS.sign(
                header: JSONValue.object(header).bytes,
                payload: claims.bytes,
                with: .privateKey(self.key),
            )
        } catch {
            throw ProvidersError(.signingFailed, "the service account's key did not sign: \(error)")
        }
    }

    /// The body of the request for an access token; its type is `application/x-www-form-urlencoded`.
    package func tokenRequestBody(issuedAt: UnixMilliseconds) throws(ProvidersError) -> [UInt8] {
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        return Array(grant.utf8) + Array(try self.assertion(issuedAt: issuedAt).utf8)
    }
}
