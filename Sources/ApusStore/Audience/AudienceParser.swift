internal import ApusCore

/// Reads audience expressions by recursive descent; its recursion is bounded by `AudienceExpression.depthMax`.
struct AudienceParser {
    private let bytes: [UInt8]
    private var offset = 0
    private var depth = 0
    private var termsCount = 0

    init(_ text: String) { self.bytes = Array(text.utf8) }

    mutating func document() throws(AudienceError) -> AudienceExpression {
        let expression = try self.chain()
        guard self.offset == self.bytes.count else { throw self.error("expected && or ||") }
        return expression
    }

    /// Reads terms joined from left to right, up to a closing parenthesis or the end.
    private mutating func chain() throws(AudienceError) -> AudienceExpression {
        var expression = try self.operand()
        while true {
            if self.take("&&") {
                expression = .and(expression, try self.operand())
            } else if self.take("||") {
                expression = .or(expression, try self.operand())
            } else {
                return expression
            }
        }
    }

    private mutating func operand() throws(AudienceError) -> AudienceExpression {
        self.skipSpace()
        guard self.depth < AudienceExpression.depthMax else { throw self.error("nested too deep") }
        self.depth += 1
        defer { self.depth -= 1 }
        if self.take("!") { return .not(try self.operand()) }
        if self.take("(") {
            let expression = try self.chain()
            guard self.take(")") else { throw self.error("expected a closing parenthesis") }
            return expression
        }
        guard self.termsCount < AudienceExpression.termsMax else {
            throw self.error("must be at most \(AudienceExpression.termsMax) terms")
        }
        self.termsCount += 1
        return try self.isAtQuote ? self.membership() : self.comparison()
    }

    // MARK: Terms

    /// Reads `'name' in topics` or `'word' in tags`.
    private mutating func membership() throws(AudienceError) -> AudienceExpression {
        let (name, start) = try self.quoted()
        guard self.takeWord("in") else { throw self.error("expected in topics or in tags") }
        if self.takeWord("tags") {
            guard (1...Limits.tagBytesMax).contains(name.utf8.count) else {
                throw AudienceError("a tag has 1 to \(Limits.tagBytesMax) bytes", at: start)
            }
            return .test(.tag(Array(name.utf8)))
        }
        guard self.takeWord("topics") else { throw self.error("expected topics or tags") }
        do throws(IdentifierError) {
            return .topic(try TopicName(name))
        } catch {
            throw AudienceError(error.description, at: start)
        }
    }

    /// Reads an attribute and its test.
    private mutating func comparison() throws(AudienceError) -> AudienceExpression {
        let start = self.offset
        let name = self.word()
        switch name {
        case "platform":
            return try self.oneOf { value in
                let providers = ProviderTraits.known.filter { $0.platform == value }.map(\.provider)
                return providers.isEmpty ? nil : .provider(providers)
            } rule: {
                // A provider may reach other platforms too, but its tokens do not tell which.
                "a platform is \(Self.list(ProviderTraits.known.compactMap(\.platform)))"
            }
        case "provider":
            return try self.oneOf { value in
                Provider(known: value).map { .provider([$0]) }
            } rule: {
                "a provider is \(Self.list(Provider.allCases.map(\.name)))"
            }
        case "environment":
            return try self.oneOf { value in
                ProviderEnvironment(name: value).map { .environment($0) }
            } rule: {
                "an environment is 'production' or 'sandbox'"
            }
        case "app_version": return try self.version()
        default: break
        }
        if let attribute = AudienceTest.TextAttribute(rawValue: name) {
            return try self.oneOf { value in
                .text(attribute, [Array(value.utf8)])
            } rule: {
                ""
            }
        }
        if let attribute = AudienceTest.TimeAttribute(rawValue: name) { return try self.time(attribute) }
        throw AudienceError(
            name.isEmpty
                ? "expected a topic in quotes, an attribute, ! or a parenthesis"
                : "there is no attribute of that name: \(Self.attributes)",
            at: start
        )
    }

    /// Returns a list as text: "'one', 'two' or 'three'".
    private static func list(_ names: [String]) -> String {
        let quoted = names.map { "'\($0)'" }
        return quoted.count < 2
            ? quoted.joined() : "\(quoted.dropLast().joined(separator: ", ")) or \(quoted[quoted.count - 1])"
    }

    private static let attributes =
        "they are platform, provider, environment, app_version, locale, country, time_zone, user, seen_at, registered_at"

    /// Reads `==`, `!=` or `in`, and what is compared with.
    private mutating func oneOf(
        _ test: (String) -> AudienceTest?,
        rule: () -> String,
    ) throws(AudienceError) -> AudienceExpression {
        let isNegated = self.take("!=")
        if isNegated || self.take("==") {
            let expression = AudienceExpression.test(try self.value(test, rule))
            return isNegated ? .not(expression) : expression
        }
        guard self.takeWord("in") else { throw self.error("expected ==, != or in") }
        return try self.list(test, rule)
    }

    private mutating func value(
        _ test: (String) -> AudienceTest?,
        _ rule: () -> String,
    ) throws(AudienceError) -> AudienceTest {
        let (text, start) = try self.quoted()
        guard let value = test(text) else { throw AudienceError(rule(), at: start) }
        return value
    }

    /// Reads `['a', 'b']`.
    private mutating func list(
        _ test: (String) -> AudienceTest?,
        _ rule: () -> String,
    ) throws(AudienceError) -> AudienceExpression {
        guard self.take("[") else { throw self.error("expected a list: ['a', 'b']") }
        var tests: [AudienceTest] = []
        repeat {
            guard tests.count < AudienceExpression.listMax else {
                throw self.error("must be at most \(AudienceExpression.listMax) values")
            }
            tests.append(try self.value(test, rule))
        } while self.take(",")
        guard self.take("]") else { throw self.error("expected a comma or a closing bracket") }
        return Self.any(tests)
    }

    /// Joins tests of the same attribute with "or".
    private static func any(_ tests: [AudienceTest]) -> AudienceExpression {
        switch tests[0] {
        case .provider:
            var all: [Provider] = []
            for case .provider(let providers) in tests { all += providers }
            return .test(.provider(Set(all).sorted()))
        case .text(let attribute, _):
            var all: [[UInt8]] = []
            for case .text(_, let values) in tests { all += values }
            return .test(.text(attribute, all))
        case .environment, .tag, .version, .noVersion, .time:
            let first = AudienceExpression.test(tests[0])
            return tests.dropFirst().reduce(first) { .or($0, .test($1)) }
        }
    }

    private mutating func version() throws(AudienceError) -> AudienceExpression {
        if let order = self.order() {
            let (text, start) = try self.quoted()
            return .test(try Self.version(order, text, at: start))
        }
        return try self.oneOf { text in
            try? Self.version(.equal, text, at: 0)
        } rule: {
            Self.versionRule
        }
    }

    private static let versionRule = "a version is numbers joined by dots: '3.2', '4.0.1-beta.2'"

    private static func version(
        _ order: AudienceTest.Order,
        _ text: String,
        at offset: Int,
    ) throws(AudienceError) -> AudienceTest {
        if text.isEmpty, order == .equal { return .noVersion }
        let bytes = Array(text.utf8)
        guard bytes.count <= Limits.appVersionBytesMax, VersionOrder.isVersion(bytes.span) else {
            throw AudienceError(Self.versionRule, at: offset)
        }
        return .version(order, bytes)
    }

    private mutating func time(_ attribute: AudienceTest.TimeAttribute) throws(AudienceError) -> AudienceExpression {
        if self.take("!=") { return .not(.test(.time(attribute, .equal, try self.moment()))) }
        guard let order = self.order() ?? (self.take("==") ? .equal : nil) else {
            throw self.error("expected <, <=, >, >=, == or !=")
        }
        return .test(.time(attribute, order, try self.moment()))
    }

    /// Reads `now`, `now-30d`, `'2026-03-01'` or `'2026-03-01T12:00:00Z'`.
    private mutating func moment() throws(AudienceError) -> AudienceTest.Moment {
        if self.isAtQuote {
            let (text, start) = try self.quoted()
            guard let time = CalendarTime.parse(text) else {
                throw AudienceError("a time is '2026-03-01' or '2026-03-01T12:00:00Z'", at: start)
            }
            return .at(time)
        }
        guard self.takeWord("now") else { throw self.error("expected now, now-30d or a date in quotes") }
        let isBefore = self.take("-")
        guard isBefore || self.take("+") else { return .sinceNow(0) }
        self.skipSpace()
        let start = self.offset
        var count: Int64 = 0
        while self.offset < self.bytes.count, (0x30...0x39).contains(self.bytes[self.offset]), count < 1_000_000_000 {
            count = count * 10 + Int64(self.bytes[self.offset] - 0x30)
            self.offset += 1
        }
        let digits = self.offset - start
        let unitName = self.word()
        guard digits > 0, let unit = CalendarTime.units.first(where: { $0.name == unitName }) else {
            throw AudienceError("a length of time is a number and s, m, h, d or w: 30d", at: start)
        }
        let milliseconds = count * Int64(unit.seconds) * 1_000
        return .sinceNow(isBefore ? -milliseconds : milliseconds)
    }

    // MARK: Words

    /// Reads `<`, `<=`, `>` or `>=`.
    private mutating func order() -> AudienceTest.Order? {
        for order in [AudienceTest.Order.lessOrEqual, .greaterOrEqual, .less, .greater] where self.take(order.rawValue)
        {
            return order
        }
        return nil
    }

    private var isAtQuote: Bool {
        let next = self.bytes[self.offset...].first { $0 != 0x20 && $0 != 0x09 }
        return next == 0x27 || next == 0x22
    }

    /// Reads a text in single or double quotes, and returns where it begins.
    private mutating func quoted() throws(AudienceError) -> (text: String, start: Int) {
        self.skipSpace()
        let start = self.offset
        guard start < self.bytes.count, self.bytes[start] == 0x27 || self.bytes[start] == 0x22 else {
            throw self.error("expected a value in quotes")
        }
        guard let end = self.bytes[(start + 1)...].firstIndex(of: self.bytes[start]) else {
            throw AudienceError("the quote is never closed", at: start)
        }
        self.offset = end + 1
        return (String(decoding: self.bytes[(start + 1)..<end], as: UTF8.self), start)
    }

    private mutating func take(_ symbol: String) -> Bool {
        self.skipSpace()
        guard self.bytes[self.offset...].starts(with: symbol.utf8) else { return false }
        self.offset += symbol.utf8.count
        return true
    }

    /// Returns the letters, digits and underscores that come next.
    private mutating func word() -> String {
        self.skipSpace()
        let start = self.offset
        while self.offset < self.bytes.count, Self.isWord(self.bytes[self.offset]) { self.offset += 1 }
        return String(decoding: self.bytes[start..<self.offset], as: UTF8.self)
    }

    /// Reads a whole word: `topics`, not the beginning of `topicsX`.
    private mutating func takeWord(_ word: String) -> Bool {
        self.skipSpace()
        let start = self.offset
        guard self.word() == word else {
            self.offset = start
            return false
        }
        return true
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x5f, 0x61...0x7a: true
        default: false
        }
    }

    private mutating func skipSpace() {
        while self.offset < self.bytes.count, self.bytes[self.offset] == 0x20 || self.bytes[self.offset] == 0x09 {
            self.offset += 1
        }
    }

    private func error(_ rule: String) -> AudienceError { AudienceError(rule, at: self.offset) }
}
