/// Decides what a signal does, by the signals before it. Pure.
package struct ShutdownMachine: Sendable {
    /// An action.
    package enum Action: Hashable {
        /// Read the configuration again.
        case reload
        /// Become unready, finish what is on the wire, and end by that deadline.
        case drain
        /// End now.
        case exit
        /// Nothing.
        case ignore
    }

    /// An event.
    package enum Event: Hashable {
        /// SIGHUP.
        case reloadAsked
        /// SIGTERM or SIGINT.
        case stopAsked
        /// The drain took longer than it may.
        case deadlinePassed
        /// Everything ended.
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

    /// Running.
    package init() {}

    /// Takes an event and returns what to do.
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
