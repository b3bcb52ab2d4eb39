import ApusDispatcher
import ApusService

await ServiceChassis.run(.dispatcher, settings: DispatcherSettings.self, metrics: DispatcherMetrics.self) { context in
    [Dispatcher(context)]
}
