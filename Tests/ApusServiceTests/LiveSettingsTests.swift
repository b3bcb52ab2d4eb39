import ApusMetrics
import ApusService
import ApusTestKit
import Testing

@Suite struct LiveSettingsTests {
    @Test func aGoodFileIsTakenOverAndABadOneChangesNothing() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("apus.yaml", "drain_timeout: 1s")
        let source = SettingsSource(file: file, environment: [:])
        let live = try LiveSettings<NoSettings>(source, for: .feedback)
        var updates = live.updates().makeAsyncIterator()
        #expect(live.current.common.drainTimeout == .seconds(1))

        try folder.write("apus.yaml", "drain_timeout: 2s")
        #expect(live.reload() == .taken)
        #expect(live.current.common.drainTimeout == .seconds(2))
        #expect(await updates.next()?.common.drainTimeout == .seconds(2))

        try folder.write("apus.yaml", "drain_timeout: never\nlog: {levle: info}")
        guard case .refused(let error) = live.reload() else {
            Issue.record("a bad file was taken over")
            return
        }
        #expect(
            error.issues.map(\.description) == [
                "drain_timeout (apus.yaml:1): must be a duration with a unit, such as 250ms, 10s, 5m or 2h",
                "log.levle (apus.yaml:2): is not a known key; did you mean log.level?",
            ]
        )
        #expect(live.current.common.drainTimeout == .seconds(2))

        try folder.write("apus.yaml", "drain_timeout: 3s")
        #expect(live.reload() == .taken)
        #expect(await updates.next()?.common.drainTimeout == .seconds(3))
        withExtendedLifetime(folder) {}
    }

    @Test func `A file that has lost all of its entries, its apps or its keys is refused, and changes nothing`() throws
    {
        let folder = try TemporaryFolder()
        let keys = try folder.write("keys", String(repeating: "1", count: 64))
        let store = "store: {encryption_key_file: \(keys)}"
        let file = try folder.write("apus.yaml", "drain_timeout: 2s\napps: {shop: {}}\n\(store)")
        let live = try LiveSettings<NoSettings>(SettingsSource(file: file, environment: [:]), for: .feedback)
        let before = live.current
        for (text, lost) in [
            ("", "entries"), ("# Nothing yet\n", "entries"), ("drain_timeout: 3s", "apps"),
            ("drain_timeout: 3s\napps: {}\n\(store)", "apps"),
            ("drain_timeout: 3s\napps: {shop: {}}", "keys of records (store.encryption_key_file)"),
        ] {
            try folder.write("apus.yaml", text)
            guard case .refused(let error) = live.reload() else {
                Issue.record("a file without its \(lost) was taken over")
                continue
            }
            let cure = "write them again, or restart the service if it is to go on without"
            #expect(error.issues.map(\.description) == ["\(file): has lost all of its \(lost): \(cure)"])
            #expect(live.current == before && live.refusal == error.sentence)
        }
        try folder.write("apus.yaml", "apps: {other: {}}\n\(store)")
        #expect(live.reload() == .taken && live.refusal == nil)
        withExtendedLifetime(folder) {}
    }

    @Test func `A file that never had an entry is read again like any other`() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("apus.yaml", "# All is in the environment.")
        let live = try LiveSettings<NoSettings>(SettingsSource(file: file, environment: [:]), for: .feedback)
        try folder.write("apus.yaml", "")
        #expect(live.reload() == .taken)
        withExtendedLifetime(folder) {}
    }

    @Test func `Settings differ when a file changes that is read as the parts are made`() throws {
        let folder = try TemporaryFolder()
        let password = try folder.write("password", "old")
        let yaml = "redis: {user: apus, password_file: \(password)}"
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let live = try LiveSettings<NoSettings>(source, for: .feedback)
        let before = live.current
        #expect(live.reload() == .taken && live.current == before)
        try folder.write("password", "new")
        #expect(live.reload() == .taken)
        #expect(live.current.common.redis != before.common.redis)
        withExtendedLifetime(folder) {}
    }

    @Test func aBadFileAtTheStartIsNotStartedWith() throws {
        let folder = try TemporaryFolder()
        let source = SettingsSource(file: try folder.write("apus.yaml", "x: 1"), environment: [:])
        #expect(throws: SettingsError.self) { try LiveSettings<NoSettings>(source, for: .feedback) }
        withExtendedLifetime(folder) {}
    }
}
