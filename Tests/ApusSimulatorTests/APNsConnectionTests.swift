import ApusCore
import ApusSimulator
import ApusTLS
import Testing

@Suite struct APNsConnectionTests {
    private func verdict(_ fixture: inout APNsFixture, authorization: String?) throws -> String {
        try fixture.verdict(fixture.request(["authorization": authorization]))
    }

    @Test func theFirstGoodTokenOpensTheConnection() throws {
        var fixture = try APNsFixture()
        #expect(try self.verdict(&fixture, authorization: nil) == "403 MissingProviderToken")
        #expect(!fixture.connection.isAuthorized)
        #expect(try fixture.verdict(fixture.request(["apns-priority": "7"])) == "400 BadPriority")
        #expect(fixture.connection.isAuthorized)
    }

    @Test func aCertificateServesTheTopicsThatItNames() throws {
        var fixture = try APNsFixture()
        func identity(_ topics: [String], _ environments: Set<ProviderEnvironment>) throws -> AppleCertificate {
            let validity = CertificateValidity(from: APNsFixture.now)
            let authority = try CertificateAuthority(name: "Root", validity: validity)
            var profile = CertificateProfile(.client, commonName: "Push", userID: topics[0], validity: validity)
            profile.extensions = AppleCertificate.extensions(topics: topics, environments: environments)
            return AppleCertificate(try authority.issue(profile).certificate)
        }
        func verdict(_ changes: [String: String?]) throws -> String {
            try fixture.verdict(fixture.request(changes.merging(["authorization": nil]) { first, _ in first }))
        }
        fixture.connection.certificate = try identity(["example.app"], [.production])
        #expect(try verdict([:]) == "200")
        #expect(fixture.connection.isAuthorized)
        #expect(try verdict(["apns-topic": nil]) == "200", "one topic goes without saying")
        #expect(try verdict(["authorization": "bearer x.y.z"]) == "200", "tokens are not looked at")
        #expect(try verdict(["apns-topic": "example.second"]) == "400 TopicDisallowed")
        let voip: [String: String?] = ["apns-topic": "example.app.voip", "apns-push-type": "voip"]
        #expect(try verdict(voip) == "400 TopicDisallowed")
        fixture.connection.certificate = try identity(["example.app", "example.app.voip"], [.production])
        #expect(try verdict(voip) == "200")
        #expect(try verdict(["apns-topic": nil]) == "400 MissingTopic")
        fixture.connection.certificate = try identity(["example.app"], [.sandbox])
        #expect(try verdict([:]) == "403 BadCertificateEnvironment")
    }

    @Test func tokensThatAreWrongAreInvalid() throws {
        let template = try APNsFixture()
        let tampered = String(try template.jwt().dropLast(4)) + "AAAA"
        let wrong = [
            "", "bearer", "basic \(try template.jwt())", "bearer ", "bearer a.b.c", "bearer \(tampered)",
            "bearer \(try template.jwt(keyID: "KEY0000009"))",
            "bearer \(try template.jwt(team: "TEAM000002"))",
            "bearer \(try template.jwt(key: template.otherKey))",
            "bearer \(try template.jwt(header: #"{"alg":"ES256"}"#))",
            "bearer \(try template.jwt(claims: #"{"iss":"TEAM000001"}"#))",
            "bearer \(try template.jwt(claims: #"{"iss":"TEAM000001","iat":"1800000000"}"#))",
            "bearer \(try template.jwt(claims: #"{"iat":1800000000}"#))",
            "bearer \(try template.jwt(claims: "[]"))",
            "bearer \(try template.jwt(issuedAt: APNsFixture.now.seconds + 61))",
        ]
        for authorization in wrong {
            var fixture = template
            let expected = authorization.isEmpty ? "403 MissingProviderToken" : "403 InvalidProviderToken"
            #expect(try self.verdict(&fixture, authorization: authorization) == expected, "\(authorization)")
        }
    }

    @Test func anHourIsTheAgeOfATokenAndAnExpiredOneWedgesTheConnection() throws {
        var fixture = try APNsFixture()
        let token = "bearer \(try fixture.jwt())"
        fixture.now = APNsFixture.now.advanced(byMilliseconds: 3_600_000)
        #expect(try self.verdict(&fixture, authorization: token) == "200")
        fixture.now = APNsFixture.now.advanced(byMilliseconds: 3_601_000)
        #expect(try self.verdict(&fixture, authorization: token) == "403 ExpiredProviderToken")
        let fresh = "bearer \(try fixture.jwt())"
        #expect(try self.verdict(&fixture, authorization: fresh) == "403 ExpiredProviderToken")
        fixture.connection = APNsConnection()
        #expect(try self.verdict(&fixture, authorization: fresh) == "200")
    }

    @Test func aSecondTokenWithinTwentyMinutesBlocksTheConnection() throws {
        var fixture = try APNsFixture()
        let first = "bearer \(try fixture.jwt())"
        #expect(try self.verdict(&fixture, authorization: first) == "200")
        fixture.now = APNsFixture.now.advanced(byMilliseconds: 1_199_999)
        let second = "bearer \(try fixture.jwt())"
        #expect(try self.verdict(&fixture, authorization: second) == "429 TooManyProviderTokenUpdates")
        #expect(try self.verdict(&fixture, authorization: first) == "429 TooManyProviderTokenUpdates")
        fixture.now = APNsFixture.now.advanced(byMilliseconds: 1_200_000)
        #expect(try self.verdict(&fixture, authorization: second) == "200")
    }

    @Test func aConnectionBelongsToOneTeam() throws {
        var fixture = try APNsFixture()
        #expect(try self.verdict(&fixture, authorization: "bearer \(fixture.jwt())") == "200")
        let other = try fixture.jwt(keyID: "KEY0000002", team: "TEAM000002", key: fixture.otherKey)
        #expect(try self.verdict(&fixture, authorization: "bearer \(other)") == "403 InvalidProviderToken")
    }

    @Test func aKeyForSomeTopicsDoesNotMixWithOthers() throws {
        var fixture = try APNsFixture()
        let scoped = "bearer \(try fixture.jwt(keyID: "KEY0000003", key: fixture.otherKey))"
        let second = "bearer \(try fixture.jwt(keyID: "KEY0000005", key: fixture.otherKey))"
        let plain = "bearer \(try fixture.jwt())"
        #expect(try self.verdict(&fixture, authorization: scoped) == "200")
        let request = try fixture.request(["authorization": scoped, "apns-topic": "example.second"])
        #expect(try fixture.verdict(request) == "400 TopicDisallowed")
        #expect(try self.verdict(&fixture, authorization: plain) == "403 UnrelatedKeyIdInToken")
        fixture.connection = APNsConnection()
        #expect(try self.verdict(&fixture, authorization: plain) == "200")
        #expect(try self.verdict(&fixture, authorization: scoped) == "403 UnrelatedKeyIdInToken")
        fixture.now = fixture.now.advanced(byMilliseconds: 1_200_000)
        #expect(try self.verdict(&fixture, authorization: second) == "200")
    }

    @Test func aKeyOfTheOtherEnvironmentIsRefused() throws {
        var fixture = try APNsFixture()
        let sandbox = "bearer \(try fixture.jwt(keyID: "KEY0000004", key: fixture.otherKey))"
        #expect(try self.verdict(&fixture, authorization: sandbox) == "403 BadEnvironmentKeyIdInToken")
        fixture.validator.environment = .sandbox
        #expect(try self.verdict(&fixture, authorization: sandbox) == "200")
    }
}
