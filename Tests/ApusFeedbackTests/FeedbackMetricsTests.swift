import ApusCore
import ApusMetrics
import Testing

@testable import ApusFeedback

@Suite struct FeedbackMetricsTests {
    @Test func `Each effect of a provider's verdict has a series of its own, by the result for the device`()
        async throws
    {
        var catalogue = MetricCatalogue()
        let metrics = FeedbackMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        for (index, effect) in VerdictEffect.allCases.enumerated() {
            registry.shared.add(Int64(index + 1), to: metrics.verdict(.fcm, effect))
        }
        let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
        let lines = text.split(separator: "\n").filter { line in
            line.contains("{provider=\"fcm\",")
                && ["removed", "ignored", "marked"].contains { line.hasPrefix("apus_feedback_\($0)_total") }
        }
        #expect(
            lines == [
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"newer_registration\"} 2",
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"token_changed\"} 3",
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"unknown_device\"} 4",
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"cleared\"} 7",
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"no_room\"} 8",
                "apus_feedback_ignored_total{provider=\"fcm\",cause=\"failed\"} 10",
                "apus_feedback_marked_total{provider=\"fcm\",change=\"suspected\"} 5",
                "apus_feedback_marked_total{provider=\"fcm\",change=\"environment_learned\"} 9",
                "apus_feedback_removed_total{provider=\"fcm\",cause=\"unregistered\"} 1",
                "apus_feedback_removed_total{provider=\"fcm\",cause=\"suspect\"} 6",
            ]
        )
    }
}
