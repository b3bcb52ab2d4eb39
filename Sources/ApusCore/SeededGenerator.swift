/// A small, fast generator for simulations and jitter: the same seed gives the same numbers. Not for secrets.
///
/// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator from a seed.
    public init(seed: UInt64) { self.state = seed }

    /// Returns the next number.
    public mutating func next() -> UInt64 {
        self.state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
