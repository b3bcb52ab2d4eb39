/// A condition did not come true in time.
package struct EventuallyTimedOut: Error, CustomStringConvertible {
    /// What was awaited.
    package let description: String
}

/// Waits until a condition is true, looking again and again: for what a test cannot be told about.
///
/// - Parameters:
///   - what: said when it never happens.
///   - timeout: generous: tests run on loaded machines.
///   - condition: asked every few milliseconds.
/// - Throws: `EventuallyTimedOut`, or what the condition throws.
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
