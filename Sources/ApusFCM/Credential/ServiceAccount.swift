package import ApusCore
package import ApusProviders
internal import ApusTLS

/// Holds a Google service account, as downloaded from the Firebase console.
///
/// Source: https://developers.google.com/identity/protocols/oauth2/service-account
package struct ServiceAccount: Sendable {
    /// The project that messages are sent for.
    package let projectID: String
    /// The account's address, which signs.
    package let clientEmail: String
    /// The id of the account's key; nil when the file holds none.
    package let privateKeyID: String?
    /// The address of the token endpoint.
    package let tokenURI: String
    private let key: PrivateKey

    /// The maximum bytes of a file.
    package static let bytesMax = 64 * 1_024
    /// The scope of access tokens: sending messages.
    package static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// The address of the token endpoint when the file names none.
    static let tokenURIDefault = "https://oauth2.googleapis.com/token"
    /// The lifetime of an assertion, in seconds; Google accepts no more.
    static let assertionSeconds: Int64 = 3_600

    /// Parses the file's contents. Every error names the invalid member, and none its value.
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

    /// Checks a project id, which stands in a path: letters, digits and the characters of domain-scoped projects.
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

    /// The host of ``tokenURI``, with its port if there is one.
    package var tokenAuthority: String { Self.endpoint(self.tokenURI)?.authority ?? "" }
    /// The path of ``tokenURI``.
    package var tokenPath: String { Self.endpoint(self.tokenURI)?.path ?? "/" }
    /// The path of the endpoint that accepts messages.
    package var sendPath: String { "/v1/projects/\(self.projectID)/messages:send" }

    /// Signs the assertion that is exchanged for an access token.
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
            throw ProvidersError(.signingFailed, "the service account's key cannot sign: \(error)")
        }
    }

    /// Returns the body of the request for an access token, of type `application/x-www-form-urlencoded`.
    package func tokenRequestBody(issuedAt: UnixMilliseconds) throws(ProvidersError) -> [UInt8] {
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        return Array(grant.utf8) + Array(try self.assertion(issuedAt: issuedAt).utf8)
    }
}
