internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration
internal import ApusService

/// The families of one service as its code declares them. Queries are made from it, so that a metric that is renamed or dropped
/// takes its panels and alerts along, or does not compile.
struct ServiceCatalogue<Own: MetricSet>: Sendable {
    private let common: CommonMetrics
    private let own: Own
    private let catalogue: MetricCatalogue

    /// - Parameter reading: the streams whose families it has.
    init(_ service: ServiceName, reading: [StreamLabel]) {
        var catalogue = MetricCatalogue()
        let build = BuildInformation(service: service.programName, version: "", revision: "", swiftVersion: "")
        self.common = catalogue.declare { CommonMetrics(build: build, reading: reading) }
        self.own = Own(&catalogue)
        self.catalogue = catalogue
    }

    /// A family of the service.
    subscript(_ path: KeyPath<Own, some MetricHandle>) -> Family {
        Family(self.catalogue.definition(of: self.own[keyPath: path]))
    }

    /// A family that every service has.
    subscript(common path: KeyPath<CommonMetrics, some MetricHandle>) -> Family {
        Family(self.catalogue.definition(of: self.common[keyPath: path]))
    }

    var definitions: [MetricDefinition] { self.catalogue.definitions }
}

/// No families of its own.
struct NoMetrics: MetricSet {}

/// The catalogues of all services.
enum Catalogues {
    static let registration = ServiceCatalogue<RegistrationMetrics>(
        .registration,
        reading: ServiceName.registration.streams
    )
    static let dispatcher = ServiceCatalogue<DispatcherMetrics>(.dispatcher, reading: ServiceName.dispatcher.streams)
    static let feedback = ServiceCatalogue<FeedbackMetrics>(.feedback, reading: ServiceName.feedback.streams)
    /// What all services have, with the streams of all of them.
    static let every = ServiceCatalogue<NoMetrics>(.dispatcher, reading: ServiceName.allCases.flatMap(\.streams))

    static func definitions(of service: ServiceName) -> [MetricDefinition] {
        switch service {
        case .registration: self.registration.definitions
        case .dispatcher: self.dispatcher.definitions
        case .feedback: self.feedback.definitions
        }
    }
}
