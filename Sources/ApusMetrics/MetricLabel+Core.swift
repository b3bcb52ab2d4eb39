public import ApusCore

extension Provider: ClosedMetricLabel {
    /// The label `provider`.
    public static let labelNames = ["provider"]
    /// The number of slots for providers: those with a code below it have one of their own, the others share the last and have no series.
    public static let labelCapacity = 16
    /// The index, from 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue &- 1) < 15 ? Int(self.rawValue &- 1) : 15 }
    /// The name in configuration and keys.
    public var labelValues: [String] { [self.name] }
}

extension Outcome: ClosedMetricLabel {
    /// The label `outcome`.
    public static let labelNames = ["outcome"]
    /// The index, from 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// The name in ledgers and receipts.
    public var labelValues: [String] { [self.name] }
}

extension Reason: ClosedMetricLabel {
    /// The label `reason`.
    public static let labelNames = ["reason"]
    /// The index, from 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// The name in ledgers and receipts.
    public var labelValues: [String] { [self.name] }
}

extension ProviderEnvironment: ClosedMetricLabel {
    /// The label `environment`.
    public static let labelNames = ["environment"]
    /// The index, from 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// The name in the configuration.
    public var labelValues: [String] { [self.name] }
}

extension Lane: ClosedMetricLabel {
    /// The label `lane`.
    public static let labelNames = ["lane"]
    /// The index, from 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// The name in stream keys.
    public var labelValues: [String] { [self.name] }
}
