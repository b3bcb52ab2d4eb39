/// The Lua sources of this target, in the order in which they are assembled: what others use comes first.
public enum StreamFunctions {
    /// One text per file.
    public static var sources: [[UInt8]] {
        [
            PackageResources.streams_common_lua, PackageResources.publish_lua, PackageResources.admit_lua,
            PackageResources.accept_lua, PackageResources.fanstep_lua, PackageResources.progress_lua,
            PackageResources.conclude_lua, PackageResources.promote_lua, PackageResources.refuse_lua,
            PackageResources.done_lua, PackageResources.renew_lua, PackageResources.retire_lua,
            PackageResources.due_lua, PackageResources.claim_lua, PackageResources.apply_lua,
            PackageResources.receipt_lua, PackageResources.route_lua,
        ]
    }
}
