import ApusBuiltInProviders
import ApusFeedback
import ApusService

BuiltInProviders.install()
await ServiceChassis.run(.feedback, settings: FeedbackSettings.self, metrics: FeedbackMetrics.self) { context in
    [Feedback(context)]
}
