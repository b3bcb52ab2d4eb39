import ApusRegistration
import ApusService

await ServiceChassis.run(
    .registration,
    settings: RegistrationSettings.self,
    metrics: RegistrationMetrics.self,
) { context in
    [try Registration(context)]
}
