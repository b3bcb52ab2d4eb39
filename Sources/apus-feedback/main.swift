import ApusFeedback
import ApusService

await ServiceChassis.run(.feedback, settings: FeedbackSettings.self, metrics: FeedbackMetrics.self) { context in
    [Feedback(context)]
}
