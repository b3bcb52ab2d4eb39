import ApusCore
import ApusFCM
import ApusProviders
import ApusTestKit
import Testing

@Suite("FCM: service accounts")
struct ServiceAccountTests {
    private func file(_ change: (inout JSONValue) -> Void = { _ in }) -> [UInt8] {
        var json: JSONValue = [
            "type": "service_account", "project_id": "example-project", "private_key_id": "test-key-1",
            "private_key": .string(Vectors.rsaKeyPEM),
            "client_email": "push@example-project.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token", "universe_domain": "googleapis.com",
        ]
        change(&json)
        return json.bytes
    }

    @Test("D78 the assertion equals a known one byte for byte")
    func assertion() throws {
        let account = try ServiceAccount(json: self.file())
        let issuedAt = UnixMilliseconds(1_700_000_000_999)
        #expect(try account.assertion(issuedAt: issuedAt) == Vectors.assertion)
        let body = String(decoding: try account.tokenRequestBody(issuedAt: issuedAt), as: UTF8.self)
        #expect(
            body == "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + Vectors.assertion
        )
    }

    @Test("where requests go")
    func endpoints() throws {
        let account = try ServiceAccount(json: self.file())
        #expect(account.sendPath == "/v1/projects/example-project/messages:send")
        #expect(account.tokenAuthority == "oauth2.googleapis.com")
        #expect(account.tokenPath == "/token")
        let other = try ServiceAccount(
            json: self.file { $0.merge(["token_uri": "https://localhost:8443", "private_key_id": nil]) }
        )
        #expect(other.tokenAuthority == "localhost:8443")
        #expect(other.tokenPath == "/")
        #expect(other.privateKeyID == nil)
    }

    @Test("what is not a service account is refused with the member's name and nothing of its value")
    func refusals() {
        func message(_ change: (inout JSONValue) -> Void) -> String {
            do {
                _ = try ServiceAccount(json: self.file(change))
                return "taken"
            } catch {
                return "\(error)"
            }
        }
        for name in ["project_id", "client_email", "private_key"] {
            #expect(message { $0.merge(.object([name: nil])) } == "\(name) is missing")
            #expect(message { $0.merge(.object([name: 5])) } == "\(name) is missing")
        }
        #expect(message { $0.merge(["type": "authorized_user"]) } == "type must be service_account")
        for project in ["../x", "a/b", "a b", "A", "..", String(repeating: "a", count: 101)] {
            #expect(
                message { $0.merge(["project_id": .string(project)]) } == "project_id must be a project's id or number"
            )
        }
        for uri in ["http://oauth2.googleapis.com/token", "https:///x", "https://user@host/", "https://a b/", "x"] {
            #expect(message { $0.merge(["token_uri": .string(uri)]) } == "token_uri must be an https URL")
        }
        let secret = message {
            $0.merge(["private_key": "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"])
        }
        #expect(secret.hasPrefix("the key cannot be read"))
        #expect(!secret.contains("SECRET"))
        #expect(message { $0 = [1] } == "project_id is missing")
        #expect(throws: ProvidersError.self) { try ServiceAccount(json: Array("{".utf8)) }
    }
}
