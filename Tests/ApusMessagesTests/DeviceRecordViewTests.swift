import ApusCore
import ApusMessages
import Testing

/// Tests that the view and the decoder read the same from the same bytes.
enum RecordReaders {
    /// Compares both; returns whether the record was taken.
    @discardableResult static func compare(_ bytes: [UInt8], _ comment: @autoclosure () -> String) -> Bool {
        var record: DeviceRecord?
        var refusal: MessageError?
        do throws(MessageError) { record = try DeviceRecord.decode(bytes) } catch { refusal = error }
        guard let view = DeviceRecordView(bytes) else {
            #expect(record == nil, "the view refused what the decoder took: \(comment())")
            return false
        }
        guard let record else {
            // The view does not look into texts, and takes no memory.
            let unseen: [MessageError.Code] = [.invalidText, .outOfMemory]
            let isUnseen = refusal.map { unseen.contains($0.code) } ?? false
            #expect(isUnseen, "the view took what the decoder refused (\(refusal?.description ?? "")): \(comment())")
            return false
        }
        let differences = Self.differences(view, record, bytes)
        #expect(differences.isEmpty, "\(differences): \(comment())")
        return true
    }

    /// Names of what the two read differently.
    private static func differences(_ view: DeviceRecordView, _ record: DeviceRecord, _ bytes: [UInt8]) -> [String] {
        func text(_ place: Range<Int>) -> String { String(decoding: bytes[place], as: UTF8.self) }
        let all: [(String, Bool)] = [
            ("token", Array(bytes[view.token]) == record.token),
            ("environment", view.environment == record.environment),
            ("tokenKind", view.tokenKind == record.tokenKind),
            ("user", text(view.user) == record.user),
            ("device", view.device(in: bytes) == record.device),
            ("locale", text(view.locale) == record.attributes.locale),
            ("timeZone", text(view.timeZone) == record.attributes.timeZone),
            ("appVersion", text(view.appVersion) == record.attributes.appVersion),
            ("country", text(view.country) == record.attributes.country),
            ("tagCount", view.tagCount == record.attributes.tags.count),
            ("tags", record.attributes.tags.allSatisfy { view.hasTag($0, in: bytes) }),
            ("topicCount", view.topicCount == record.topics.count),
            ("topics", record.topics.allSatisfy { view.hasTopic($0, in: bytes) }),
            ("otherTopics", Self.others(record.topics).allSatisfy { !view.hasTopic($0, in: bytes) }),
            ("seenAtHours", view.seenAtHours == record.seenAtHours),
            ("p256dh", Array(bytes[view.webpushP256DH]) == record.webpushP256DH),
            ("auth", Array(bytes[view.webpushAuth]) == record.webpushAuth),
            ("serverKey", Array(bytes[view.applicationServerKey]) == record.applicationServerKey),
            ("expiresAt", view.expiresAtSeconds == record.expiresAtSeconds),
            ("suspicion", view.suspicion == record.suspicion),
            ("secondaryCount", view.secondaryCount == record.secondary.count),
            ("secondary", Self.secondary(view, bytes) == record.secondary),
        ]
        return all.filter { !$0.1 }.map(\.0)
    }

    private static func others(_ topics: [UInt32]) -> [UInt32] {
        let taken = Set(topics)
        return topics.flatMap { [$0 &+ 1, $0 &- 1] }.filter { !taken.contains($0) }
    }

    private static func secondary(_ view: DeviceRecordView, _ bytes: [UInt8]) -> [DeviceRecord.SecondaryAddress] {
        var addresses: [DeviceRecord.SecondaryAddress] = []
        _ = view.secondaryAddress(in: bytes.span) { address in
            var copy = DeviceRecord.SecondaryAddress(kind: address.kind, token: Array(bytes[address.token]))
            copy.activityID = String(decoding: bytes[address.activityID], as: UTF8.self)
            copy.expiresAtSeconds = address.expiresAtSeconds
            copy.isSuspect = address.isSuspect
            copy.registeredAt = address.registeredAt
            copy.isOfOtherEnvironment = address.isOfOtherEnvironment
            addresses.append(copy)
            return false
        }
        return addresses
    }
}

@Suite struct DeviceRecordViewTests {
    @Test func readsWhatTheDecoderReads() throws {
        #expect(RecordReaders.compare(try Samples.deviceRecord.encode(), "the sample"))
        #expect(RecordReaders.compare(Least.record, "the least"))
        #expect(RecordReaders.compare(Least.record + Wire.nested([6], Wire.text(1, "en")), "a locale"))
    }

    @Test func answersTheQuestionsOfASend() throws {
        let bytes = try Samples.deviceRecord.encode()
        let view = try #require(DeviceRecordView(bytes))
        #expect(view.hasTopic(1, in: bytes))
        #expect(view.hasTopic(.max, in: bytes))
        #expect(!view.hasTopic(0, in: bytes))
        #expect(!view.hasTopic(2, in: bytes))
        #expect(view.hasTag("vip", in: bytes))
        #expect(!view.hasTag("vi", in: bytes))
        #expect(view.isUser("user-1", in: bytes))
        #expect(!view.isUser("user-2", in: bytes))
        #expect(!view.isUser("user-11", in: bytes))
        let voip = try #require(view.secondaryAddress(of: .voip, in: bytes))
        #expect(Array(bytes[voip.token]) == [0, 1, 2])
        #expect(view.secondaryAddress(of: .controls, in: bytes) == nil)
    }

    @Test func readsARecordAmongOthers() throws {
        let one = try Samples.deviceRecord.encode()
        let bytes = [0xff, 0xff] + one + [0xff]
        let range = 2..<(2 + one.count)
        let view = try #require(DeviceRecordView(bytes, range))
        #expect(Array(bytes[view.token]) == Samples.deviceRecord.token)
        #expect(view.hasTopic(70_000, in: bytes))
        #expect(DeviceRecordView(bytes, range.lowerBound..<(range.upperBound + 1)) == nil)
    }

    @Test func topicsInSeveralRunsAreFound() throws {
        let bytes = Wire.number(5, 3) + Least.record + Wire.bytes(5, [4, 9]) + Wire.bytes(5, [10])
        #expect(RecordReaders.compare(bytes, "scattered topics"))
        let view = try #require(DeviceRecordView(bytes))
        for topic: UInt32 in 0...12 {
            #expect(view.hasTopic(topic, in: bytes) == [3, 4, 9, 10].contains(topic))
        }
    }

    @Test func limitsAreTheDecodersOwn() {
        // Each record one past its limit; the comparison wants both to refuse it.
        for count in [0, 1, 2, 3, 16, 17, 32, 33, 64, 65, 100, 101, 128, 129, 256, 257, 4_096, 4_097] {
            let text = [UInt8](repeating: 0x61, count: count)
            for bytes in [
                Wire.bytes(1, text) + Wire.text(8, "d"), Least.record + Wire.bytes(4, text),
                Wire.bytes(1, [0]) + Wire.bytes(8, text), Wire.bytes(1, [0]) + Wire.bytes(14, text),
                Wire.bytes(1, [0]) + Wire.bytes(15, text), Least.record + Wire.bytes(14, text),
                Wire.bytes(1, [0]) + Wire.bytes(15, text) + Wire.bytes(14, text), Least.record + Wire.bytes(9, text),
                Least.record + Wire.bytes(10, text), Least.record + Wire.nested([6, 1], text),
                Least.record + Wire.nested([6, 2], text), Least.record + Wire.nested([6, 3], text),
                Least.record + Wire.nested([6, 4], text), Least.record + Wire.nested([6, 5], text),
                Least.record + Wire.nested([6], Wire.repeating(Wire.text(5, "t"), count)),
                Least.record + Wire.repeating(Wire.fixed64(31, 1), min(count, 800)),
                Least.record
                    + Wire.repeating(Wire.nested([12], Wire.number(1, 3) + Wire.bytes(2, [0])), min(count, 300)),
                Least.record + Wire.nested([12], Wire.number(1, 3) + Wire.bytes(2, text)),
                Least.record + Wire.nested([12], Wire.number(1, 3) + Wire.bytes(2, [0]) + Wire.bytes(3, text)),
                Least.record + Array((0..<UInt64(count)).map { Wire.number(5, $0) }.joined()),
            ] { RecordReaders.compare(bytes, "\(count)") }
        }
    }

    @Test func unknownFieldsAreCountedAlike() {
        for count in [1_023, 1_024, 1_025] {
            RecordReaders.compare(Least.record + Wire.repeating(Wire.tag(99, 2) + [4, 1, 2, 3, 4], count), "\(count)")
            let half = Wire.repeating(Wire.number(15, 1), count / 2)
            let rest = Wire.repeating(Wire.number(31, 1), count - count / 2)
            RecordReaders.compare(Least.record + Wire.bytes(6, half) + rest, "\(count), half within")
        }
    }

    @Test func aRecordCutShortAnywhereIsReadAlike() throws {
        let bytes = try Samples.deviceRecord.encode()
        for count in 0..<bytes.count { RecordReaders.compare(Array(bytes[..<count]), "cut to \(count)") }
    }

    @Test func randomRecordsAreReadAlike() throws {
        var generator = FuzzSeed.generator()
        for _ in 0..<2_000 {
            let record = Self.random(&generator)
            #expect(RecordReaders.compare(try record.encode(), "seed \(FuzzSeed.value)"))
        }
    }

    @Test func mutatedRecordsAreReadAlike() throws {
        var generator = FuzzSeed.generator()
        var corpus = [try Samples.deviceRecord.encode(), Least.record]
        for _ in 0..<20 { corpus.append(try Self.random(&generator).encode()) }
        var taken = 0
        for iteration in 0..<20_000 {
            let bytes = Mutation.mutate(corpus, &generator)
            if RecordReaders.compare(bytes, "seed \(FuzzSeed.value), iteration \(iteration), bytes \(bytes)") {
                taken += 1
            }
        }
        // Else the mutations would only ever test the first check.
        #expect(taken > 1_000)
    }

    static func random(_ generator: inout SeededGenerator) -> DeviceRecord {
        func text(_ max: Int) -> String {
            let letters = Array("abcXYZ019-é☃")
            return String(
                (0..<Int.random(in: 0...max, using: &generator) / 4).compactMap { _ in
                    letters.randomElement(using: &generator)
                }
            )
        }
        func uuid() -> String {
            var random = generator
            defer { generator = random }
            let bytes = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
            let digits = Array(Hexadecimal.encode(bytes))
            let text = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
            return Bool.random(using: &random) ? text.uppercased() : text
        }
        var record = DeviceRecord(
            device: Bool.random(using: &generator) ? uuid() : "d" + text(100),
            token: (0..<Int.random(in: 1...200, using: &generator)).map { _ in .random(in: 0...255, using: &generator) },
        )
        record.environment = ProviderEnvironment.allCases.randomElement(using: &generator) ?? .production
        record.tokenKind = TokenKind.allCases.randomElement(using: &generator) ?? .device
        record.user = text(120)
        record.topics = Set(
            (0..<Int.random(in: 0...20, using: &generator)).map { _ in
                UInt32.random(in: 0...UInt32.max, using: &generator) >> UInt32.random(in: 0...31, using: &generator)
            }
        ).sorted()
        record.attributes.locale = text(35)
        record.attributes.timeZone = text(40)
        record.attributes.appVersion = text(20)
        record.attributes.country = Bool.random(using: &generator) ? "DE" : ""
        record.attributes.tags = (0..<Int.random(in: 0...4, using: &generator)).map { "t\($0)" + text(40) }
        record.seenAtHours = .random(in: 0...600_000, using: &generator)
        if Bool.random(using: &generator) {
            record.webpushP256DH = Samples.p256dh
            record.webpushAuth = Samples.auth
        }
        if Bool.random(using: &generator) { record.applicationServerKey = Samples.p256dh }
        record.expiresAtSeconds = max(0, .random(in: -1_000_000_000...2_000_000_000, using: &generator))
        let changedAt = max(0, Int64.random(in: -1_000_000_000_000...2_000_000_000_000, using: &generator))
        record.changedAt = UnixMilliseconds(changedAt)
        if Bool.random(using: &generator) {
            record.suspicion = DeviceRecord.Suspicion(
                since: UnixMilliseconds(.random(in: 0...2_000_000_000_000, using: &generator)),
                reason: Reason.allCases.randomElement(using: &generator) ?? .other,
            )
        }
        record.isEnvironmentLearned = .random(using: &generator)
        record.secondary = (0..<Int.random(in: 0...3, using: &generator)).map { number in
            var address = DeviceRecord.SecondaryAddress(
                kind: TokenKind.allCases.randomElement(using: &generator) ?? .voip,
                token: [UInt8(number)],
            )
            address.activityID = text(40)
            address.expiresAtSeconds = .random(in: 0...2_000_000_000, using: &generator)
            address.isSuspect = .random(using: &generator)
            address.registeredAt = UnixMilliseconds(.random(in: 0...2_000_000_000_000, using: &generator))
            address.isOfOtherEnvironment = .random(using: &generator)
            return address
        }
        return record
    }
}
