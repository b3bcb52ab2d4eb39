public import ApusCore

extension Provider: ClosedMetricLabel {
    /// `provider`.
    public static let labelNames = ["provider"]
    /// Places for providers: those with a code below it have one of their own, the others share the last and have no series.
    public static let labelCapacity = 16
    /// From 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue &- 1) < 15 ? Int(self.rawValue &- 1) : 15 }
    /// As in configuration and keys.
    public var labelValues: [String] { [self.name] }
}

extension Outcome: ClosedMetricLabel {
    /// `outcome`.
    public static let labelNames = ["outcome"]
    /// From 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// As in ledgers and receipts.
    public var labelValues: [String] { [self.name] }
}

extension Reason: ClosedMetricLabel {
    /// `reason`.
    public static let labelNames = ["reason"]
    /// From 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// As in ledgers and receipts.
    public var labelValues: [String] { [self.name] }
}

extension ProviderEnvironment: ClosedMetricLabel {
    /// `environment`.
    public static let labelNames = ["environment"]
    /// From 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// As in configuration.
    public var labelValues: [String] { [self.name] }
}

extension Lane: ClosedMetricLabel {
    /// `lane`.
    public static let labelNames = ["lane"]
    /// From 0.
    @inlinable public var labelIndex: Int { Int(self.rawValue) - 1 }
    /// As in stream keys.
    public var labelValues: [String] { [self.name] }
}
