internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration
internal import ApusService

/// The metric families of one service, as its code declares them. Queries are built from it, so a renamed or removed
/// metric changes the panels and alerts as well, or the build fails.
struct ServiceCatalogue<Own: MetricSet>: Sendable {
    private let common: CommonMetrics
    private let own: Own
    private let catalogue: MetricCatalogue

    /// - Parameters:
    ///   - service: the service.
    ///   - all: the services whose streams the families are of.
    init(_ service: ServiceName, withStreamsOf all: [ServiceName]) {
        var catalogue = MetricCatalogue()
        let build = BuildInformation(service: service.programName, version: "", revision: "", swiftVersion: "")
        self.common = catalogue.declare {
            CommonMetrics(build: build, reading: all.flatMap(\.streams), letters: all.flatMap(\.deadLetterStreams))
        }
        self.own = Own(&catalogue)
        self.catalogue = catalogue
    }

    /// Returns a family of the service.
    subscript(_ path: KeyPath<Own, some MetricHandle>) -> Family {
        Family(self.catalogue.definition(of: self.own[keyPath: path]))
    }

    /// Returns a family that every service has.
    subscript(common path: KeyPath<CommonMetrics, some MetricHandle>) -> Family {
        Family(self.catalogue.definition(of: self.common[keyPath: path]))
    }

    var definitions: [MetricDefinition] { self.catalogue.definitions }
}

/// Describes a service without families of its own.
struct NoMetrics: MetricSet {}

/// The catalogues of all services.
enum Catalogues {
    static let registration = ServiceCatalogue<RegistrationMetrics>(.registration, withStreamsOf: [.registration])
    static let dispatcher = ServiceCatalogue<DispatcherMetrics>(.dispatcher, withStreamsOf: [.dispatcher])
    static let feedback = ServiceCatalogue<FeedbackMetrics>(.feedback, withStreamsOf: [.feedback])
    /// The families that all services have, with the streams of all services.
    static let every = ServiceCatalogue<NoMetrics>(.dispatcher, withStreamsOf: ServiceName.allCases)

    static func definitions(of service: ServiceName) -> [MetricDefinition] {
        switch service {
        case .registration: self.registration.definitions
        case .dispatcher: self.dispatcher.definitions
        case .feedback: self.feedback.definitions
        }
    }
}
