/// Describes what keeps a send from going on.
package struct SendObstacle: Hashable, Sendable {
    /// The obstacle's name, which stays while it lasts: the sentence may tell for how long.
    package let id: String
    /// The cause and the cure.
    package let sentence: String

    /// Creates an obstacle.
    package init(id: String, sentence: String) {
        self.id = id
        self.sentence = sentence
    }

    /// Returns those of some obstacles that were not among earlier ones.
    static func new(_ current: [SendObstacle], since earlier: [SendObstacle]) -> [SendObstacle] {
        let known = Set(earlier.map(\.id))
        return current.filter { !known.contains($0.id) }
    }
}
