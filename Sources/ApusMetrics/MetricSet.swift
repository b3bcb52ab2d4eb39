/// The families of one service: a struct of handles, declared in its initialiser.
public protocol MetricSet: Sendable {
    /// Declares them.
    init(_ catalogue: inout MetricCatalogue)
}
