import ApusCore
import Testing

@testable import ApusTerminal

/// Tests the sentences about the parts of an installation that do not answer.
@Suite struct ReachabilityTests {
    @Test func `A whole installation has all shards and lists, and nothing to tell`() {
        let reach = Reachability(shards: 3)
        #expect(reach.isWhole && reach.shards == [0, 1, 2] && reach.has(.services) && reach.has(RouteNumber(5)))
        #expect(reach.sentences == [] && reach.json == nil)
    }

    @Test func `Shards and lists that do not answer are counted, with their servers`() {
        let (one, two) = ("10.0.0.1:6379", "10.0.0.2:6379")
        let reach = Reachability(
            shards: 6,
            silentShards: [1: two, 4: one, 5: two],
            silentLists: [.services: one, .publishers: two]
        )
        #expect(!reach.isWhole && reach.shards == [0, 2, 3])
        #expect(!reach.has(.services) && !reach.has(RouteNumber(7)) && reach.has(RouteNumber(6)))
        #expect(
            reach.sentences == [
                "3 of 6 shards (servers \(one), \(two)) do not answer: what they hold is left out",
                "the lists of publishers and services (servers \(one), \(two)) do not answer: what they hold is left out",
            ]
        )
        #expect(
            reach.json == [
                "shards": 3, "of": 6, "servers": [.string(one), .string(two)], "lists": ["publishers", "services"],
            ]
        )
    }

    @Test func `One shard is told as one, and a slot without a server as such`() {
        let reach = Reachability(shards: 6, silentShards: [2: ""], silentLists: [.services: "10.0.0.1:6379"])
        #expect(
            reach.sentences == [
                "1 of 6 shards (without a server) does not answer: what it holds is left out",
                "the list of services (server 10.0.0.1:6379) does not answer: what it holds is left out",
            ]
        )
    }
}
