import ApusRedis
import ApusTestKit
import Testing

@Suite("Keyspace")
struct KeyspaceTests {
    @Test("a tag's slot is CRC16 of the text in its braces")
    func slots() {
        // The check value of CRC-16/XMODEM is 0x31C3.
        #expect(HashTag("123456789").slot == 0x31c3)
        #expect(HashTag("foo").slot == 12_182)
        #expect(HashTag("q1").key("in:express") == "{q1}in:express")
        #expect(HashTag("q1").description == "{q1}")
    }

    @Test("a key's tag is what Redis hashes")
    func tagsOfKeys() {
        #expect(HashTag(ofKey: "apus:meta").text == "apus:meta")
        #expect(HashTag(ofKey: "{q1}in:{x}").text == "q1")
        #expect(HashTag(ofKey: "u:x{9}:{7}").text == "9")
        #expect(HashTag(ofKey: "a{}{b}").text == "a{}{b}")
        #expect(HashTag(ofKey: "a{b").text == "a{b")
        #expect(HashTag(ofKey: "a{{b}}").text == "{b")
    }

    @Test("the sixteen queue shards have these tags, for ever")
    func queueShards() {
        let tags = [
            "{q41}", "{q63}", "{q23}", "{q0}", "{q40}", "{q62}", "{q22}", "{q1}",
            "{q43}", "{q61}", "{q21}", "{q2}", "{q42}", "{q60}", "{q20}", "{q3}",
        ]
        #expect(Keyspace().shardTags.map(\.description) == tags)
        #expect(Keyspace(queueShards: 2, devicePartitions: 4).shardTags.map(\.description) == ["{q0}", "{q2}"])
    }

    @Test(
        "every range of slots has the smallest number that falls into it",
        arguments: [(1, 1), (2, 4), (16, 256), (3, 1_024)]
    )
    func smallest(queueShards: Int, devicePartitions: Int) {
        let keyspace = Keyspace(queueShards: queueShards, devicePartitions: devicePartitions)
        #expect(keyspace.queueShards == queueShards && keyspace.devicePartitions == devicePartitions)
        for (prefix, tags) in [("q", keyspace.shardTags), ("t", keyspace.partitionTags)] {
            for (range, tag) in tags.enumerated() {
                #expect(tag.slot * tags.count / 16_384 == range)
                let number = Int(tag.text.dropFirst()) ?? -1
                let smaller = (0..<number).contains { HashTag("\(prefix)\($0)").slot * tags.count / 16_384 == range }
                #expect(!smaller, "\(tag)")
            }
        }
    }

    @Test("an id's place is a part of SHA-256 of app, zero byte and id")
    func placement() {
        // SHA-256 of these bytes begins with 2f9e 1dab2c1f2bbb1a88 (sha256sum).
        let placement = Keyspace().placement(app: "shop", id: "device-1")
        #expect(placement == Placement(shard: 14, partition: 158, digest: 0x1dab_2c1f_2bbb_1a88))
        let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)
        #expect(keyspace.shard(app: "shop", id: "device-1") == 0)
        #expect(keyspace.partition(app: "shop", id: "device-1") == 2)
        #expect(keyspace.digest(app: "shop", id: "device-1") == placement.digest)
    }

    @Test("the real server agrees on every slot")
    func realServer() async throws {
        try await RedisServer.with { server in
            let keyspace = Keyspace()
            for tag in keyspace.shardTags + keyspace.partitionTags.prefix(32) {
                let key = tag.key("in:express")
                #expect(try await server.command("CLUSTER", "KEYSLOT", .text(key)).root.integer == Int64(tag.slot))
                #expect(HashTag(ofKey: key) == tag)
            }
            for key in ["a{}{b}", "a{b", "a{{b}}", "u:x{9}:{7}", "apus:meta", "{}", ""] {
                let slot = try await server.command("CLUSTER", "KEYSLOT", .text(key)).root.integer
                #expect(slot == Int64(HashTag(ofKey: key).slot), "\(key)")
            }
        }
    }
}
