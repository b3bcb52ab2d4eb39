/// Why a laboratory could not do what was asked: one sentence that also tells the cure.
package struct LaboratoryError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// An error.
    package init(_ sentence: String) { self.description = sentence }
}
