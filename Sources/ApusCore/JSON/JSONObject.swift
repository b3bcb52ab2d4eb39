/// The members of a JSON object in their order. Each name stands once.
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

    /// In order.
    public private(set) var members: [Member] = []

    /// `{}`.
    public init() {}

    /// In the order given; a name given twice is a programmer's error.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements {
            precondition(self[name] == nil, "a JSON object names a member twice")
            self.members.append(Member(name: name, value: value))
        }
    }

    /// Takes members whose names the parser has found to be different.
    init(checked members: [Member]) { self.members = members }

    /// How many.
    public var count: Int { self.members.count }
    /// Whether it is `{}`.
    public var isEmpty: Bool { self.members.isEmpty }

    /// The value of that name. Setting replaces it where it stands, or appends it; nil removes it.
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
        // Most names differ in length already, which is known without looking at them.
        let byteCount = name.utf8.count
        return self.members.firstIndex { $0.name.utf8.count == byteCount && $0.name.utf8.elementsEqual(name.utf8) }
    }
}
