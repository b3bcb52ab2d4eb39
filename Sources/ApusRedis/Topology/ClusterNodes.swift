/// Holds what one node of a cluster says of all nodes: the answer to `CLUSTER NODES`.
///
/// It is asked rather than `CLUSTER SLOTS` because it alone has the configuration epochs, by which the newer of two
/// answers is known for each slot (<https://redis.io/docs/latest/commands/cluster-nodes/>).
package struct ClusterNodes: Hashable, Sendable {
    /// A node, as another one sees it.
    package struct Node: Hashable, Sendable {
        /// The node's id, 40 hexadecimal digits.
        package var id: String
        /// The address that clients use: the announced host name, otherwise the IP address.
        package var endpoint: RedisEndpoint
        /// The IP address and port, by which `MOVED` may name the node.
        package var address: RedisEndpoint
        /// True for a master.
        package var isMaster: Bool
        /// True when the majority of the masters, or the node that answers, cannot reach it.
        package var isFailed: Bool
        /// True when the majority of the masters cannot reach it.
        package var isFailedByMajority = false
        /// The id of the master that a replica follows; nil for a master.
        package var master: String?
        /// The configuration epoch of the node, or of its master.
        package var epoch: UInt64
        /// The slots that a master holds.
        package var slots: [ClosedRange<Int>] = []
        /// True for the node that answers.
        package var isSelf = false
        /// The slots of which keys are being moved. A node names only its own.
        package var openSlots: [OpenSlot] = []

        /// Creates a node.
        package init(
            id: String,
            endpoint: RedisEndpoint,
            address: RedisEndpoint,
            isMaster: Bool,
            isFailed: Bool = false,
            master: String? = nil,
            epoch: UInt64,
            slots: [ClosedRange<Int>] = [],
            isSelf: Bool = false,
            openSlots: [OpenSlot] = [],
        ) {
            self.id = id
            self.endpoint = endpoint
            self.address = address
            self.isMaster = isMaster
            self.isFailed = isFailed
            self.master = master
            self.epoch = epoch
            self.slots = slots
            self.isSelf = isSelf
            self.openSlots = openSlots
        }
    }

    /// A slot that one node gives to another, key by key.
    package struct OpenSlot: Hashable, Sendable {
        /// The slot.
        package var slot: Int
        /// True at the node that gets the slot, false at the one that gives it.
        package var isImported: Bool
        /// The id of the other node.
        package var peer: String

        /// Creates a slot.
        package init(slot: Int, isImported: Bool, peer: String) {
            self.slot = slot
            self.isImported = isImported
            self.peer = peer
        }
    }

    /// The nodes with a known address.
    package var nodes: [Node]

    /// Creates a table of nodes.
    package init(nodes: [Node]) { self.nodes = nodes }

    /// True when every slot has a master.
    package var isWhole: Bool {
        var isHeld = [Bool](repeating: false, count: HashTag.slotCount)
        for node in self.nodes where node.isMaster { for slot in node.slots.joined() { isHeld[slot] = true } }
        return isHeld.allSatisfy(\.self)
    }

    /// Parses the text of an answer.
    ///
    /// - Parameter source: the server that answered; a node that does not know its own address is that one.
    /// - Throws: `unexpectedReply` with the first line that is no node.
    package init(_ text: String, from source: RedisEndpoint) throws(RedisError) {
        self.nodes = []
        for line in text.split(separator: "\n") where !line.isEmpty {
            if let node = try Self.node(line, source) { self.nodes.append(node) }
        }
        guard !self.nodes.isEmpty else { throw RedisError(.unexpectedReply, "CLUSTER NODES: no node with an address") }
    }

    /// Parses `<id> <ip:port@cport[,hostname]> <flags> <master> <ping> <pong> <epoch> <link> <slot>…`; nil for a node
    /// whose address is not known.
    private static func node(_ line: Substring, _ source: RedisEndpoint) throws(RedisError) -> Node? {
        let wrong = RedisError(.unexpectedReply, "CLUSTER NODES: not a node: \(line)")
        let words = line.split(separator: " ")
        guard words.count >= 8, let epoch = UInt64(words[6]) else { throw wrong }
        let flags = words[2].split(separator: ",")
        // The host name, and what else is announced, follow the address.
        let parts = words[1].split(separator: ",", omittingEmptySubsequences: false)
        guard let place = parts.first, let at = place.firstIndex(of: "@"),
            let colon = place[..<at].lastIndex(of: ":"), let port = Int(place[place.index(after: colon)..<at])
        else { throw wrong }
        var slots: [ClosedRange<Int>] = []
        var openSlots: [OpenSlot] = []
        for word in words.dropFirst(8) {
            // Slots that are being moved stand in brackets: their owner is still the one that has them without.
            guard !word.hasPrefix("[") else {
                if let open = Self.openSlot(word) { openSlots.append(open) }
                continue
            }
            let ends = word.split(separator: "-").compactMap { Int($0) }
            guard (1...2).contains(ends.count), ends[0] <= ends[ends.count - 1],
                ends.allSatisfy((0..<HashTag.slotCount).contains)
            else { throw wrong }
            slots.append(ends[0]...ends[ends.count - 1])
        }
        var ip: String? = place[..<colon].isEmpty ? nil : String(place[..<colon])
        if ip == nil, flags.contains("myself") { ip = source.host }
        let announced = parts.dropFirst().first.map(String.init) ?? ""
        let name = announced.isEmpty || announced == "?" || announced.contains("=") ? ip : announced
        guard (1...65_535).contains(port), !flags.contains("noaddr"), !flags.contains("handshake"), let name else {
            return nil
        }
        var node = Node(
            id: String(words[0]),
            endpoint: .host(name, port: port),
            address: .host(ip ?? name, port: port),
            isMaster: flags.contains("master"),
            isFailed: flags.contains("fail") || flags.contains("fail?"),
            master: words[3] == "-" ? nil : String(words[3]),
            epoch: epoch,
            slots: slots,
            isSelf: flags.contains("myself"),
            openSlots: openSlots,
        )
        node.isFailedByMajority = flags.contains("fail")
        return node
    }

    /// Parses `[<slot>->-<node>]` of a slot that is given, or `[<slot>-<-<node>]` of one that is got.
    private static func openSlot(_ word: Substring) -> OpenSlot? {
        guard word.hasSuffix("]") else { return nil }
        let text = word.dropFirst().dropLast()
        guard let arrow = text.firstRange(of: "->-") ?? text.firstRange(of: "-<-"),
            let slot = Int(text[..<arrow.lowerBound]), (0..<HashTag.slotCount).contains(slot)
        else { return nil }
        let peer = String(text[arrow.upperBound...])
        return peer.isEmpty ? nil : OpenSlot(slot: slot, isImported: text[arrow] == "-<-", peer: peer)
    }
}
