/// The members of a JSON object in their order. Each name is unique.
///
/// Names are compared byte by byte, as JSON's are, not by Swift's canonical equivalence.
public struct JSONObject: Hashable, Sendable, ExpressibleByDictionaryLiteral {
    /// A name and its value.
    public struct Member: Hashable, Sendable {
        /// The name.
        public let name: String
        /// The value.
        public var value: JSONValue
    }

    /// The members in order.
    public private(set) var members: [Member] = []

    /// Creates the object `{}`.
    public init() {}

    /// Creates an object in the given order; a repeated name is a programming error.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements {
            precondition(self[name] == nil, "a JSON object names a member twice")
            self.members.append(Member(name: name, value: value))
        }
    }

    /// Wraps members whose names the parser has found to be unique.
    init(checked members: [Member]) { self.members = members }

    /// The number of members.
    public var count: Int { self.members.count }
    /// True for `{}`.
    public var isEmpty: Bool { self.members.isEmpty }

    /// The value of a name. Setting replaces it in its place, or appends it; nil removes it.
    public subscript(name: String) -> JSONValue? {
        get { self.index(of: name).map { self.members[$0].value } }
        set {
            switch (self.index(of: name), newValue) {
            case (let index?, let value?): self.members[index].value = value
            case (nil, let value?): self.members.append(Member(name: name, value: value))
            case (let index?, nil): self.members.remove(at: index)
            case (nil, nil): break
            }
        }
    }

    private func index(of name: String) -> Int? {
        // Most names differ in length, which is compared first.
        let byteCount = name.utf8.count
        return self.members.firstIndex { $0.name.utf8.count == byteCount && $0.name.utf8.elementsEqual(name.utf8) }
    }
}
