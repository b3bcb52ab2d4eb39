internal import ApusCore
internal import CApusMessages

/// Provides the memory that protobuf-c unpacks into and that values are packed from: allocated in order, freed all at once.
///
/// protobuf-c allocates memory once per field, which from `malloc` would cost more than the parsing; and small messages
/// can need much of it (64 KiB of empty sub-messages: 3.7 MB). Here each message has a budget, beyond which unpacking
/// fails cleanly. One arena serves any number of messages, one after the other, on one thread at a time.
@safe public struct MessageArena: ~Copyable {
    /// Returns the budget of a message: sixteen times its size and 64 KiB, at most `Limits.messageArenaBytesMax`.
    package static func budget(forBytes count: Int) -> Int {
        min(16 * count + 65_536, Limits.messageArenaBytesMax)
    }

    /// A piece of memory from malloc.
    @safe private struct Block {
        let start: UnsafeMutableRawPointer
        let size: Int

        init(size: Int) {
            unsafe self.start = .allocate(byteCount: size, alignment: 16)
            self.size = size
        }

        func deallocate() { unsafe self.start.deallocate() }
    }

    /// The state that the C callbacks use: it has a fixed address, while the arena itself may move.
    @safe private struct State {
        var allocator: ProtobufCAllocator
        var blocks: [Block] = []
        /// The bytes allocated from the last block.
        var usedInBlock = 0
        /// The bytes allocated from all blocks.
        var used = 0
        var budget = 0
        var isExhausted = false

        /// Allocates memory, aligned for any C structure of ours; returns nil beyond the budget.
        mutating func take(_ size: Int) -> UnsafeMutableRawPointer? {
            guard size >= 0, size <= self.budget else {
                self.isExhausted = true
                return nil
            }
            let room = (max(size, 1) + 7) & ~7
            guard room <= self.budget - self.used else {
                self.isExhausted = true
                return nil
            }
            if room > (self.blocks.last?.size ?? 0) - self.usedInBlock {
                // Blocks double, so that a large message needs few calls of malloc and less than half is wasted.
                let size = max(room, self.blocks.last.map { $0.size * 2 } ?? MessageArena.firstBlockBytes)
                self.blocks.append(Block(size: size))
                self.usedInBlock = 0
            }
            let start = unsafe self.blocks[self.blocks.count - 1].start + self.usedInBlock
            self.usedInBlock += room
            self.used += room
            return unsafe start
        }

        mutating func reset(budget: Int) {
            if self.blocks.count > 1 || self.blocks.last.map({ $0.size > MessageArena.keptBytesMax }) ?? false {
                // One block of the last message's size is kept, so that a similar one needs no malloc.
                // The memory of a rare, very large message must not be kept for ever.
                self.deallocate()
                self.blocks = [Block(size: min((self.used + 4_095) & ~4_095, MessageArena.keptBytesMax))]
            }
            self.usedInBlock = 0
            self.used = 0
            self.budget = budget
            self.isExhausted = false
        }

        func deallocate() {
            for block in self.blocks { block.deallocate() }
        }
    }

    private static let firstBlockBytes = 16_384
    private static let keptBytesMax = 262_144

    private let state: UnsafeMutablePointer<State>

    /// Creates an empty arena; takes its first memory with the first message.
    public init() {
        unsafe self.state = .allocate(capacity: 1)
        let allocator = unsafe ProtobufCAllocator(
            alloc: { data, size in
                guard let state = unsafe data?.assumingMemoryBound(to: State.self) else { return nil }
                return unsafe state.pointee.take(Int(clamping: size))
            },
            free: { _, _ in },
            allocator_data: self.state,
        )
        unsafe self.state.initialize(to: State(allocator: allocator))
    }

    deinit {
        unsafe self.state.pointee.deallocate()
        unsafe self.state.deinitialize(count: 1)
        unsafe self.state.deallocate()
    }

    /// The bytes allocated since the last reset.
    package var used: Int { unsafe self.state.pointee.used }

    /// True when an allocation exceeded the budget.
    package var isExhausted: Bool { unsafe self.state.pointee.isExhausted }

    /// Frees all allocations and sets the budget of the next message.
    package func reset(budget: Int) {
        precondition(budget >= 0 && budget <= Limits.messageArenaBytesMax)
        unsafe self.state.pointee.reset(budget: budget)
    }

    /// The allocator for protobuf-c; valid as long as the arena.
    var allocator: UnsafeMutablePointer<ProtobufCAllocator> {
        unsafe UnsafeMutableRawPointer(self.state).assumingMemoryBound(to: ProtobufCAllocator.self)
    }

    /// Allocates uninitialized memory for the given number of elements, at least one.
    func take<Element>(
        _ count: Int,
        of type: Element.Type,
    ) throws(MessageError) -> UnsafeMutablePointer<Element> {
        guard let memory = unsafe self.state.pointee.take(count * MemoryLayout<Element>.stride) else {
            throw MessageError(.outOfMemory, "needs more memory than a message may")
        }
        return unsafe memory.bindMemory(to: Element.self, capacity: max(count, 1))
    }

    /// Allocates a structure with every field unset.
    func make<Packed>(
        _ initialize: (UnsafeMutablePointer<Packed>?) -> Void
    ) throws(MessageError) -> UnsafeMutablePointer<Packed> {
        let packed = try unsafe self.take(1, of: Packed.self)
        unsafe initialize(packed)
        return unsafe packed
    }
}
