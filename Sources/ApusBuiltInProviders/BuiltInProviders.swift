internal import ApusAPNs
internal import ApusFCM
package import ApusProviders
internal import ApusWebPush

/// The list of providers that come with Apus.
package enum BuiltInProviders {
    /// The providers, in the order in which an app's routes stand.
    package static let all: [any PushProvider] = [APNsProvider(), FCMProvider(), WebPushProvider()]

    /// Makes them known to this process. A program does so before it reads a configuration.
    package static func install() { ProviderList.install(Self.all) }
}
