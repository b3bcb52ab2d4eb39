internal import ApusCore

/// Divides a send's recipients among the plans of its routes, so that each recipient is planned once.
///
/// A plan takes the recipients on its own route. The first plan also counts those that no plan's route leads to.
struct PlanShare: Hashable, Sendable {
    /// The plan's route.
    let route: RouteNumber
    /// The routes that have a plan, as of the time when the send was accepted.
    let routes: [RouteNumber]

    /// The plan to which a recipient belongs.
    enum Part: Hashable, Sendable {
        /// This plan sends to the recipient.
        case mine
        /// This plan counts the recipient, because no route leads to it.
        case nobodys
        /// Another plan handles the recipient.
        case others
    }

    /// True when this plan counts the recipients that no route leads to.
    var isFirst: Bool { self.routes.first == self.route }

    /// Returns the plan to which a recipient belongs.
    ///
    /// - Parameter number: the recipient's route; nil if it has none.
    func part(of number: RouteNumber?) -> Part {
        if number == self.route { return .mine }
        if let number, self.routes.contains(number) { return .others }
        return self.isFirst ? .nobodys : .others
    }
}
