import ApusCore
import ApusMessages
import ApusProviders
import Testing

@testable import ApusDispatcher

/// Recipients with keys of their own behind their tokens.
@Suite struct RecipientTableTests {
    private static let now = UnixMilliseconds(seconds: 1_700_000_000)

    private func table() -> RecipientTable {
        var table = RecipientTable()
        table.keyBytes = RecipientKeys.byteCount
        return table
    }

    private func row(_ index: Int) -> RecipientTable.Row { RecipientTable.Row(partition: 1, ordinal: UInt32(index)) }

    private func record(_ change: (inout DeviceRecord) -> Void = { _ in }) -> DeviceRecord {
        var record = DeviceRecord(device: "d", token: Array("https://push.example/a".utf8))
        record.webpushP256DH = [4] + [UInt8](repeating: 1, count: 64)
        record.webpushAuth = [UInt8](repeating: 2, count: 16)
        change(&record)
        return record
    }

    /// A row's bytes as requests get them.
    private func recipient(_ table: RecipientTable, _ index: Int) -> [UInt8] {
        let row = table.rows[index]
        return Array(table.tokens[Int(row.tokenOffset)..<Int(row.tokenOffset) + Int(row.tokenLength) + table.keyBytes])
    }

    @Test func `A device's keys stand behind its token, which alone is its token`() throws {
        var table = self.table()
        let server: [UInt8] = [4] + [UInt8](repeating: 3, count: 64)
        table.append(self.row(0), self.record(), now: Self.now)
        table.append(self.row(1), self.record { $0.applicationServerKey = server }, now: Self.now)
        for index in 0..<2 {
            #expect(Array(table.token(index)) == self.record().token)
            let keys = try #require(RecipientKeys(of: self.recipient(table, index)))
            #expect(keys.publicKey == self.record().webpushP256DH && keys.secret == self.record().webpushAuth)
            #expect(keys.serverKey == (index == 0 ? nil : server))
            #expect(Array(RecipientKeys.address(of: self.recipient(table, index))) == self.record().token)
        }
        #expect(RecipientKeys(of: self.record().token) == nil)
    }

    @Test func `A device without keys, or whose subscription has ended, is skipped`() {
        var table = self.table()
        table.append(self.row(0), self.record { $0.webpushP256DH = [] }, now: Self.now)
        table.append(self.row(1), self.record { $0.webpushAuth = [] }, now: Self.now)
        table.append(self.row(2), self.record { $0.expiresAtSeconds = Self.now.seconds }, now: Self.now)
        table.append(self.row(3), self.record { $0.expiresAtSeconds = Self.now.seconds + 1 }, now: Self.now)
        #expect(table.rows.map(\.verdict) == [.skipped, .skipped, .skipped, .open])
        #expect(table.rows.prefix(3).map(\.verdictReason) == [.malformed, .malformed, .notMatching])
    }

    @Test func `A row that was read again takes new keys along with the same token, and old ones cost nothing`() throws
    {
        var table = self.table()
        for index in 0..<2 { table.append(self.row(index), self.record(), now: Self.now) }
        var found = self.table()
        found.append(self.row(0), self.record { $0.webpushAuth = [UInt8](repeating: 9, count: 16) }, now: Self.now)
        found.append(self.row(1), self.record(), now: Self.now)
        let before = table.tokens.count
        for index in 0..<2 { table.replace(index, with: index, of: found) }
        #expect(RecipientKeys(of: self.recipient(table, 0))?.secret == [UInt8](repeating: 9, count: 16))
        #expect(RecipientKeys(of: self.recipient(table, 1))?.secret == self.record().webpushAuth)
        #expect(table.tokens.count == before + self.record().token.count + RecipientKeys.byteCount)
    }
}
