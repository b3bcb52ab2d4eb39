import ApusBuiltInProviders
import ApusRegistration
import ApusService
import ApusStreams

BuiltInProviders.install()
await ServiceChassis.run(
    .registration,
    settings: RegistrationSettings.self,
    metrics: RegistrationMetrics.self,
) { [replicas = ReplicaConfirmations()] context in
    [try Registration(context, replicas: replicas)]
}
