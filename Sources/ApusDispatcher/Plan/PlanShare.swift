internal import ApusCore

/// Which of a send's recipients one route's plan takes, so that each is taken once: those on its own route, and for the first plan
/// also those that no plan's route leads to.
struct PlanShare: Hashable, Sendable {
    /// The plan's route.
    let route: RouteNumber
    /// The routes that have a plan, as they were when the send was accepted.
    let routes: [RouteNumber]

    /// Whose a recipient is.
    enum Part: Hashable, Sendable {
        /// This plan's to send to.
        case mine
        /// This plan's to count: nothing leads to it.
        case nobodys
        /// Another plan's.
        case others
    }

    /// Whether this plan counts those whom no route leads to.
    var isFirst: Bool { self.routes.first == self.route }

    /// Whose a recipient on that route is; nil: it is on none.
    func part(of number: RouteNumber?) -> Part {
        if number == self.route { return .mine }
        if let number, self.routes.contains(number) { return .others }
        return self.isFirst ? .nobodys : .others
    }
}
