import Logging
import NIOPosix
import Testing

@testable import ApusDispatcher
@testable import ApusService

@Suite struct DispatcherStartTests {
    @Test func `A dispatcher that was made and has not started is not ready`() async throws {
        let context = ServiceContext(
            try LiveSettings<DispatcherSettings>(SettingsSource(file: nil, environment: [:]), for: .dispatcher),
            metrics: DispatcherMetrics.self,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        _ = Dispatcher(context)
        context.readiness.enter(.serving)
        #expect(await !context.readiness.report().isReady)
    }
}
