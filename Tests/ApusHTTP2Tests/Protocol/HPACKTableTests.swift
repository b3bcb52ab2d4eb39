import Testing

@testable import ApusHTTP2

/// Representations of RFC 7541 §6, told by their first byte.
@Suite struct HPACKTableTests {
    private static func field(_ name: String, _ value: String) -> HPACKTable.Field {
        HPACKTable.Field(Array(name.utf8), Array(value.utf8))
    }

    /// The first byte that a field takes in a block, and whether a block made once more would be no shorter.
    private static func encode(
        _ field: HPACKTable.Field,
        _ table: inout HPACKTable,
        isIndexed: Bool = true
    ) -> (first: UInt8?, isShortest: Bool) {
        var block = GrowingBytes()
        defer { block.free() }
        let isShortest = table.encode(field, isIndexed: isIndexed, to: &block)
        return (unsafe block.start?[0], isShortest)
    }

    @Test func `A header enters the table when it occurs again`() {
        var table = HPACKTable()
        let topic = Self.field("apns-topic", "com.example.app")
        let before = table.generation
        #expect(Self.encode(topic, &table) == (0x00, false))
        #expect(table.generation == before)
        #expect(Self.encode(topic, &table) == (0x40, true))
        #expect(table.generation == before + 1)
        // The newest of the dynamic table, behind the 61 of the static one.
        #expect(Self.encode(topic, &table) == (0x80 | 62, true))
        #expect(table.generation == before + 1)
    }

    @Test func `A repeated field is indexed and found the next time, however many fields there are`() {
        var table = HPACKTable()
        // So many that they drive each other out of what is remembered.
        let fields = (0..<70).map { Self.field("h\($0)", "v") }
        for field in fields { #expect(Self.encode(field, &table) == (0x00, false)) }
        for field in fields {
            var block = GrowingBytes()
            defer { block.free() }
            let isShortest = table.encode(field, isIndexed: true, isRepeated: true, to: &block)
            let first = unsafe block.start?[0]
            #expect(isShortest && first == 0x40)
        }
        let before = table.generation
        for field in fields { #expect(Self.encode(field, &table).isShortest) }
        #expect(table.generation == before)
    }

    @Test func `The fields of one send never push out those of every send`() {
        var table = HPACKTable()
        let topic = Self.field("apns-topic", "com.example.app")
        for _ in 0..<2 { _ = Self.encode(topic, &table) }
        let before = table.generation
        for number in 0..<1_000 {
            let own = Self.encode(Self.field("apns-collapse-id", "send-\(number)"), &table)
            #expect(own == (0x00, false))
        }
        #expect(table.generation == before)
        #expect(Self.encode(topic, &table) == (0x80 | 62, true))
    }

    @Test func `A header of the static table is named from the start, and one that may not be indexed stays a literal`()
    {
        var table = HPACKTable()
        #expect(Self.encode(Self.field(":method", "POST"), &table) == (0x83, true))
        for _ in 0..<3 {
            #expect(Self.encode(Self.field("x", "y"), &table, isIndexed: false) == (0x00, true))
        }
    }
}
