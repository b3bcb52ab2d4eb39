import ApusCore
import ApusStore
import Testing

@Suite struct AudienceExpressionTests {
    @Test(arguments: [
        ("'news' in topics", "'news' in topics"),
        ("\"news\" in topics", "'news' in topics"),
        ("  ! ( 'a' in topics )  ", "!('a' in topics)"),
        ("'a' in topics || 'b' in topics && 'c' in topics", "'a' in topics || 'b' in topics && 'c' in topics"),
        ("'a' in topics || ('b' in topics && 'c' in topics)", "'a' in topics || ('b' in topics && 'c' in topics)"),
        ("platform == 'ios'", "provider == 'apns'"),
        ("platform != 'android'", "!(provider == 'fcm')"),
        ("provider in ['webpush', 'apns', 'apns']", "provider in ['apns', 'webpush']"),
        ("environment == 'sandbox'", "environment == 'sandbox'"),
        ("app_version>='3.2'", "app_version >= '3.2'"),
        ("app_version in ['1', '2.0-beta']", "app_version == '1' || app_version == '2.0-beta'"),
        ("app_version == ''", "app_version == ''"),
        ("locale in ['en','fr']", "locale in ['en', 'fr']"),
        ("user == \"o'neil\"", "user == \"o'neil\""),
        ("user != ''", "!(user == '')"),
        ("'vip' in tags", "'vip' in tags"),
        ("seen_at > now-30d", "seen_at > now-30d"),
        ("seen_at > now - 14d", "seen_at > now-2w"),
        ("registered_at <= now", "registered_at <= now"),
        ("registered_at == '2026-02-28'", "registered_at == '2026-02-28'"),
        ("registered_at < '2024-02-29T23:59:01Z'", "registered_at < '2024-02-29T23:59:01Z'"),
    ])
    func `An expression is read, and written again`(text: String, written: String) throws {
        let expression = try AudienceExpression(parsing: text)
        #expect(expression.text == written)
        #expect(try AudienceExpression(parsing: written) == expression)
    }

    @Test(arguments: [
        ("", 0, "expected a topic"), ("'a' in topics &&", 16, "expected a topic"), ("'a in topics", 0, "never closed"),
        ("'a' in topicsx", 7, "expected topics or tags"), ("'a b' in topics", 0, "topic"),
        ("'' in tags", 0, "tag has 1"),
        ("('a' in topics", 14, "closing parenthesis"), ("'a' in topics 'b' in topics", 14, "expected && or ||"),
        ("colour == 'red'", 0, "no attribute"), ("locale = 'en'", 7, "expected ==, != or in"),
        ("locale == en", 10, "value in quotes"), ("locale in 'en'", 10, "expected a list"),
        ("locale in []", 11, "in quotes"),
        ("locale in ['en'", 15, "comma or a closing bracket"), ("locale < 'en'", 7, "expected ==, != or in"),
        ("platform == 'windows'", 12, "a platform is"), ("provider in ['apns', 'x']", 21, "a provider is"),
        ("environment == 'test'", 15, "an environment is"), ("app_version > 'three'", 14, "a version is"),
        ("app_version < ''", 14, "a version is"), ("app_version in ['1', '2.']", 21, "a version is"),
        ("seen_at in ['2026-01-01']", 8, "expected <, <=, >"), ("seen_at > now-30", 14, "a length of time"),
        ("seen_at > now-d", 14, "a length of time"), ("seen_at > now-3y", 14, "a length of time"),
        ("seen_at > '2026-02-29'", 10, "a time is"), ("seen_at > '2026-01-01T24:00:00Z'", 10, "a time is"),
        ("seen_at > later", 10, "expected now"),
    ])
    func `An error names its place`(text: String, offset: Int, rule: String) {
        #expect { try AudienceExpression(parsing: text) } throws: { error in
            guard let error = error as? AudienceError else { return false }
            return error.offset == offset && error.rule.contains(rule)
        }
    }

    @Test func `Every limit holds, and one more is refused`() throws {
        func terms(_ count: Int) -> String { Array(repeating: "'a' in topics", count: count).joined(separator: "||") }
        func refuses(_ text: String, _ rule: String) -> Bool {
            do {
                _ = try AudienceExpression(parsing: text)
                return false
            } catch {
                return error.rule.contains(rule)
            }
        }
        _ = try AudienceExpression(parsing: terms(AudienceExpression.termsMax))
        #expect(refuses(terms(AudienceExpression.termsMax + 1), "terms"))
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + "'a' in topics" + String(repeating: ")", count: depth)
        }
        _ = try AudienceExpression(parsing: nested(AudienceExpression.depthMax - 1))
        #expect(refuses(nested(AudienceExpression.depthMax), "nested"))
        #expect(refuses(String(repeating: "!", count: 100) + "'a' in topics", "nested"))
        func list(_ count: Int) -> String {
            "locale in [\(Array(repeating: "'en'", count: count).joined(separator: ","))]"
        }
        _ = try AudienceExpression(parsing: list(AudienceExpression.listMax))
        #expect(refuses(list(AudienceExpression.listMax + 1), "values"))
        let long = "user == '" + String(repeating: "x", count: Limits.expressionBytesMax - 10) + "'"
        _ = try AudienceExpression(parsing: long)
        #expect(refuses(long + " ", "bytes"))
        let tag = String(repeating: "t", count: Limits.tagBytesMax)
        _ = try AudienceExpression(parsing: "'\(tag)' in tags")
        #expect(refuses("'\(tag)t' in tags", "tag"))
        let version = String(repeating: "1", count: Limits.appVersionBytesMax)
        _ = try AudienceExpression(parsing: "app_version > '\(version)'")
        #expect(refuses("app_version > '\(version)1'", "version"))
        #expect(refuses("seen_at > now-12345678901w", "length of time"))
    }

    @Test func `Any bytes are read or refused`() {
        var random = SeededBytes(seed: 7)
        let words = [
            "'a' in topics", "locale in ['en']", "seen_at <", "now", "-1d", "app_version >=", "'1'", "user ==", "&&",
            "||",
            "!", "(", ")", "[", "'", "in",
        ]
        var read = 0
        for _ in 0..<20_000 {
            let text = (0..<Int(random.next() % 8)).map { _ in words[Int(random.next() % UInt64(words.count))] }
            if let expression = try? AudienceExpression(parsing: text.joined(separator: " ")) {
                read += 1
                #expect((try? AudienceExpression(parsing: expression.text)) == expression)
            }
        }
        #expect(read > 20)
    }
}

/// A small generator of its own, so that a failure can be repeated.
private struct SeededBytes {
    private var state: UInt64

    init(seed: UInt64) { self.state = seed }

    mutating func next() -> UInt64 {
        self.state = self.state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return self.state >> 33
    }
}

@Suite struct VersionOrderTests {
    private func compare(_ one: String, _ other: String) -> Int? {
        VersionOrder.compare(Array(one.utf8).span, Array(other.utf8).span)?.signum()
    }

    @Test func `Versions stand in the order of versions`() {
        // The middle of it is semver's own example.
        let ascending = [
            "0", "0.0.1", "0.9", "0.10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.0.1", "1.2", "1.10", "2", "10", "10.0.99999999999999999999",
            "10.0.100000000000000000000",
        ]
        for (index, one) in ascending.enumerated() {
            for (place, other) in ascending.enumerated() {
                #expect(self.compare(one, other) == (index - place).signum(), "\(one) and \(other)")
            }
        }
    }

    @Test func `Missing numbers are zero, leading zeros and builds do not count`() {
        for other in ["3.2", "3.2.0", "3.02", "3.2+7", "3.2 (45)", "3.2(45)", "3.2.0.0"] {
            #expect(self.compare("3.2", other) == 0 && self.compare(other, "3.2") == 0, "\(other)")
        }
        for text in ["", ".", "3.", ".3", "v3", "3..2", "3.2b1", "three", "-1", " 3"] {
            #expect(self.compare(text, "3") == nil && self.compare("3", text) == nil, "\(text)")
        }
    }
}

@Suite struct CalendarTimeTests {
    @Test func `A time comes back from its text`() throws {
        // Every twelve hours and a bit, over four hundred years.
        for step in 0..<2_000 {
            let time = UnixMilliseconds(seconds: Int64(step) * 6_311_433)
            #expect(CalendarTime.parse(CalendarTime.text(time)) == time)
        }
        #expect(CalendarTime.parse("2000-02-29T12:00:00Z") == UnixMilliseconds(seconds: 951_825_600))
        #expect(CalendarTime.parse("9999-12-31T23:59:59Z") == UnixMilliseconds(seconds: 253_402_300_799))
        for text in ["1969-12-31", "2100-02-29", "2026-13-01", "2026-00-01", "2026-01-32", "2026-01-00", "2026-1-1"] {
            #expect(CalendarTime.parse(text) == nil, "\(text)")
        }
    }
}
