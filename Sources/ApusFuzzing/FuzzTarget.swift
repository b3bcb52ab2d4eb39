/// A parser of foreign bytes with the properties that must hold for any of them.
///
/// The tests run each target over its inputs and a bounded number of mutations.
package struct FuzzTarget: Sendable {
    /// The name of the target and of the file with its kept inputs.
    package let name: String
    /// Words of the format, from which mutations are made.
    package let words: [String]
    /// Inputs that the parser accepts.
    package let seeds: [[UInt8]]
    /// Parses an input and checks the properties; throws ``FuzzFailure`` when one does not hold. A refused input is no failure.
    package let run: @Sendable (_ input: [UInt8]) throws -> Void

    /// Creates a target.
    ///
    /// - Parameter run: throws ``FuzzFailure`` when a property does not hold for the input.
    package init(
        _ name: String,
        words: [String] = [],
        seeds: [[UInt8]],
        _ run: @escaping @Sendable (_ input: [UInt8]) throws -> Void,
    ) {
        self.name = name
        self.words = words
        self.seeds = seeds
        self.run = run
    }

    /// Every target, by area.
    package static let all: [FuzzTarget] =
        Self.connections + Self.texts + Self.messages + Self.notifications + Self.answers + Self.bodies
        + Self.credentials
}

/// A property that does not hold for an input.
package struct FuzzFailure: Error, CustomStringConvertible {
    /// The property, and what was seen instead.
    package let description: String

    /// Creates a failure with the sentence that describes it.
    package init(_ description: String) { self.description = description }
}

/// Throws unless a property holds.
func require(_ holds: Bool, _ property: @autoclosure () -> String) throws(FuzzFailure) {
    if !holds { throw FuzzFailure(property()) }
}

extension [UInt8] {
    /// The bytes as text; nil when they are not UTF-8.
    var validText: String? { String(validating: self, as: UTF8.self) }

    /// Takes the first byte off; 0 when there is none.
    mutating func takeFirst() -> UInt8 { self.isEmpty ? 0 : self.removeFirst() }
}

extension String {
    /// The text's bytes.
    var bytes: [UInt8] { Array(self.utf8) }
}
