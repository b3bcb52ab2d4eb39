import ApusCore
import ApusMetrics
import ApusService
import Foundation
import Testing

@testable import ApusDashboards

@Suite struct CatalogueTests {
    @Test(arguments: ServiceName.allCases)
    func `The series of a service are bounded`(_ service: ServiceName) {
        // With fifty apps the dispatcher has a thousand more.
        #expect(MetricList.seriesCount(of: service) <= 1_600)
        #expect(MetricList.seriesCount(of: service) > 100)
    }

    @Test func `No label can have an unlimited number of values`() {
        let fromConfiguration: Set = ["app", "loop", "route"]
        for entry in MetricList().entries {
            let definition = entry.definition
            #expect(definition.seriesCount <= 600, "\(definition.name) has \(definition.seriesCount) series")
            #expect(definition.kind != .histogram || definition.seriesCount <= 200, "\(definition.name)")
            for label in definition.labelNames where !fromConfiguration.contains(label) {
                #expect((1...25).contains(definition.labelValues[label]?.count ?? 0), "\(definition.name): \(label)")
            }
        }
    }

    @Test func `Every metric is used by a panel, a rule or a table`() {
        let queries =
            Dashboard.all.flatMap(\.rows).flatMap(\.panels).flatMap(\.queries).map(\.expression)
            + RuleGroup.recorded.flatMap(\.recordings).map(\.expression) + RuleGroup.alerts.map(\.expression)
            + ConsoleTable.all.map(\.query)
        var asked: Set<String> = []
        for query in queries {
            for match in query.matches(of: /[a-z][a-z0-9_]+/) { asked.insert(String(match.output)) }
        }
        for entry in MetricList().entries {
            let name = entry.definition.name
            let names = entry.definition.kind == .histogram ? ["_bucket", "_count", "_sum"].map { name + $0 } : [name]
            #expect(names.contains { asked.contains($0) }, "nobody asks for \(name)")
        }
    }

    @Test func `The list has each family once, with its services`() throws {
        let entries = MetricList().entries
        #expect(entries.map(\.definition.name) == Set(entries.map(\.definition.name)).sorted())
        let read = try #require(entries.first { $0.definition.name == "apus_stream_entries_read_total" })
        #expect(read.services == ServiceName.allCases)
        #expect(read.definition.labelValues["stream"]?.contains("outcomes") == true)
        #expect(read.definition.labelValues["stream"]?.contains("in_express") == true)
        #expect(read.definition.labelValues["stream"]?.contains("receipts") == false)
        // Feedback posts them to the webhook, and writes dead letters of them.
        let dead = try #require(entries.first { $0.definition.name == "apus_stream_dead_letters_total" })
        #expect(dead.definition.labelValues["stream"]?.contains("receipts") == true)
        let latency = try #require(entries.first { $0.definition.name == "apus_dispatcher_delivery_latency_seconds" })
        #expect(latency.services == [.dispatcher])
        let json = MetricList().json
        #expect(json["metrics"]?.array?.count == entries.count)
    }
}
