import ApusBuiltInProviders
import ApusDispatcher
import ApusService

BuiltInProviders.install()
await ServiceChassis.run(.dispatcher, settings: DispatcherSettings.self, metrics: DispatcherMetrics.self) { context in
    [Dispatcher(context)]
}
