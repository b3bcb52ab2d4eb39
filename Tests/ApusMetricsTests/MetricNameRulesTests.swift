import ApusMetrics
import Testing

@Suite struct MetricNameRulesTests {
    @Test(arguments: [
        ("apus_queue_count", MetricKind.gauge, "\"_count\" is reserved"),
        ("apus_latency_ms", .histogram, "metric names should not contain abbreviated units"),
        ("apus_wait_milliseconds", .histogram, "use base unit \"seconds\" instead of \"milliseconds\""),
        ("apus_size_kibibytes", .gauge, "use base unit \"bytes\" instead of \"kibibytes\""),
        ("apus_age_days", .gauge, "use base unit \"seconds\" instead of \"days\""),
        ("apus_sends", .counter, "counter metrics should have \"_total\" suffix"),
        ("apus_sends_total", .gauge, "non-counter metrics should not have \"_total\" suffix"),
        ("apus_build", .info, "info metrics should have \"_info\" suffix"),
        ("apus_send_histogram_seconds", .histogram, "metric name should not include type 'histogram'"),
        ("apus_inFlight", .gauge, "metric names should be written in 'snake_case'"),
        ("apus:sends_total", .counter, "metric names should be written in 'snake_case'"),
    ])
    func aNameThatTheLinterRefusesIsRefused(name: String, kind: MetricKind, message: String) {
        #expect(MetricNameRules.violation(name: name, kind: kind, help: "x", labelNames: []) == message)
    }

    @Test func labelsAreChecked() {
        func violation(_ labels: [String], help: String = "x") -> String? {
            MetricNameRules.violation(name: "apus_sends_total", kind: .counter, help: help, labelNames: labels)
        }
        #expect(violation(["provider", "outcome"]) == nil)
        #expect(violation(["le"]) == "the label \"le\" is reserved")
        #expect(violation(["errorCode"]) == "label names should be written in 'snake_case'")
        #expect(violation(["app", "app"]) == "a label is named twice")
        #expect(violation([], help: "") == "no help text")
    }

    @Test func aRefusedDeclarationTraps() async {
        await #expect(processExitsWith: .failure) {
            var catalogue = MetricCatalogue()
            _ = catalogue.declare { Counter("apus_latency_ms_total", "x") }
        }
        await #expect(processExitsWith: .failure) {
            var catalogue = MetricCatalogue()
            _ = catalogue.declare { (Counter("apus_sends_total", "x"), Gauge("apus_sends", "x")) }
        }
    }

    @Test func aDeclarationOutsideOfACatalogueTraps() async {
        await #expect(processExitsWith: .failure) { _ = Counter("apus_sends_total", "x") }
    }
}
