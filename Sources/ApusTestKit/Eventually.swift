/// Reports a condition that did not come true in time.
package struct EventuallyTimedOut: Error, CustomStringConvertible {
    /// The awaited condition.
    package let description: String
}

/// Waits until a condition is true by polling it, for events that a test is not notified of.
///
/// - Parameters:
///   - what: the condition's name in the error.
///   - timeout: the time limit; generous, because tests run on loaded machines.
///   - condition: the condition, polled every few milliseconds.
/// - Throws: `EventuallyTimedOut`, or the condition's error.
package func eventually(
    _ what: String = "the condition",
    timeout: Duration = .seconds(60),
    _ condition: () async throws -> Bool,
) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + timeout
    while true {
        if try await condition() { return }
        guard clock.now < deadline else {
            throw EventuallyTimedOut(description: "\(what) did not come true within \(timeout)")
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}
