import ApusFCM
import ApusProviders
import Testing

@Suite("Google's token endpoint: answers")
struct OAuthAnswerTests {
    private func answer(_ status: Int, _ body: String, retryAfter: Int64? = nil) -> OAuthAnswer {
        OAuthAnswer(status: status, body: Array(body.utf8), retryAfterMilliseconds: retryAfter)
    }

    @Test("a token and how long it lives")
    func granted() {
        #expect(
            self.answer(200, #"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#)
                == .granted(accessToken: "ya29.x", expiresInSeconds: 3_599)
        )
        #expect(
            self.answer(200, #"{"access_token":"ya29.x"}"#) == .granted(accessToken: "ya29.x", expiresInSeconds: 3_600)
        )
    }

    @Test(
        "a 200 without a token that fits into a header is no token",
        arguments: [
            "", "{}", #"{"access_token":""}"#, #"{"access_token":"a b"}"#, #"{"access_token":"a\r\nx: y"}"#,
            #"{"access_token":"a","token_type":"mac"}"#, #"{"access_token":"a","expires_in":0}"#,
            #"{"access_token":5}"#,
        ]
    )
    func malformed(body: String) {
        #expect(self.answer(200, body) == self.malformed)
    }

    private let malformed = OAuthAnswer.unavailable(retryAfterMilliseconds: nil, detail: "an answer without a token")

    @Test("one byte past the longest token is no token")
    func length() {
        func body(_ count: Int) -> String { "{\"access_token\":\"\(String(repeating: "a", count: count))\"}" }
        let most = OAuthAnswer.accessTokenBytesMax
        #expect(self.answer(200, body(most)) != self.malformed)
        #expect(self.answer(200, body(most + 1)) == self.malformed)
    }

    @Test(
        "D76 what is wrong with the account is told apart by its description",
        arguments: [
            ("invalid_grant", "Invalid JWT Signature.", .signature),
            ("invalid_grant", "Invalid grant: account not found", .accountNotFound),
            ("invalid_grant", "Invalid JWT: Failed audience check.", .audience),
            ("invalid_scope", "Invalid OAuth scope or ID token audience provided.", .scope),
            ("invalid_client", "", .other),
        ] as [(String, String, OAuthAnswer.Refusal)]
    )
    func refusals(error: String, description: String, refusal: OAuthAnswer.Refusal) {
        let answer = self.answer(400, "{\"error\":\"\(error)\",\"error_description\":\"\(description)\"}")
        guard case .refused(let kind, let detail) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(kind == refusal)
        #expect(detail.hasPrefix(error))
    }

    @Test("D76 a time that is called unreasonable is this machine's, and no refusal of the account")
    func clock() {
        let words =
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values."
        let answer = self.answer(400, "{\"error\":\"invalid_grant\",\"error_description\":\"\(words)\"}")
        let detail = "\(CredentialGrant.wrongClock) (invalid_grant: \(words))"
        #expect(answer == .unavailable(retryAfterMilliseconds: nil, detail: detail))
    }

    @Test("trouble on the way is not a refusal")
    func unavailable() {
        let answer = self.answer(503, "<html>", retryAfter: 5_000)
        #expect(answer == .unavailable(retryAfterMilliseconds: 5_000, detail: "status 503"))
        #expect(self.answer(429, "{}") == .unavailable(retryAfterMilliseconds: nil, detail: "status 429"))
        #expect(self.answer(302, "") == .unavailable(retryAfterMilliseconds: nil, detail: "status 302"))
    }

    @Test("a refusal without OAuth's word does not come from the token endpoint: it says nothing of the account")
    func wordless() {
        for (status, body) in [(403, "<html>"), (400, ""), (404, "{}"), (400, #"{"error":{"code":400}}"#)] {
            let answer = self.answer(status, body, retryAfter: 7_000)
            #expect(answer == .unavailable(retryAfterMilliseconds: 7_000, detail: "status \(status)"))
        }
        #expect(self.answer(403, #"{"error":"x"}"#) == .refused(.other, detail: "x"))
    }
}
