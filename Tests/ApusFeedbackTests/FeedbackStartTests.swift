import Logging
import NIOPosix
import Testing

@testable import ApusFeedback
@testable import ApusService

@Suite struct FeedbackStartTests {
    @Test func `Feedback that was made and has not started is not ready`() async throws {
        let context = ServiceContext(
            try LiveSettings<FeedbackSettings>(SettingsSource(file: nil, environment: [:]), for: .feedback),
            metrics: FeedbackMetrics.self,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        _ = Feedback(context)
        context.readiness.enter(.serving)
        #expect(await !context.readiness.report().isReady)
    }
}
