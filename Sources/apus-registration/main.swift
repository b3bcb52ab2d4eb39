import ApusBuiltInProviders
import ApusRegistration
import ApusService

BuiltInProviders.install()
await ServiceChassis.run(
    .registration,
    settings: RegistrationSettings.self,
    metrics: RegistrationMetrics.self,
) { context in
    [try Registration(context)]
}
