/// Decides the effect of a signal from the signals before it. Pure.
package struct ShutdownMachine: Sendable {
    /// The actions that the process performs.
    package enum Action: Hashable {
        /// Read the configuration again.
        case reload
        /// Become unready, finish the work in flight, and end by the drain's deadline.
        case drain
        /// End at once.
        case exit
        /// Do nothing.
        case ignore
    }

    /// The events that the machine receives.
    package enum Event: Hashable {
        /// SIGHUP.
        case reloadAsked
        /// SIGTERM or SIGINT.
        case stopAsked
        /// The drain has exceeded its time limit.
        case deadlinePassed
        /// Every part has ended.
        case finished
    }

    private enum State {
        /// Can become `draining` or `over`.
        case running
        /// Can become `over`.
        case draining
        /// Nothing more happens.
        case over
    }

    private var state = State.running

    /// Creates the machine of a running process.
    package init() {}

    /// Handles an event and returns the action to perform.
    package mutating func receive(_ event: Event) -> Action {
        switch (self.state, event) {
        case (.running, .reloadAsked): return .reload
        case (.running, .stopAsked):
            self.state = .draining
            return .drain
        case (.draining, .stopAsked), (.draining, .deadlinePassed):
            self.state = .over
            return .exit
        case (.running, .finished), (.draining, .finished):
            self.state = .over
            return .ignore
        case (.running, .deadlinePassed), (.draining, .reloadAsked), (.over, _): return .ignore
        }
    }
}
