/// The Lua sources of this target, in the order in which they are assembled: what others use comes first.
public enum StreamFunctions {
    /// One text per file.
    public static var sources: [[UInt8]] {
        [
            PackageResources.streams_common_lua, PackageResources.streams_guard_lua, PackageResources.publish_lua,
            PackageResources.admit_lua,
            PackageResources.accept_lua, PackageResources.fanstep_lua, PackageResources.progress_lua,
            PackageResources.conclude_lua, PackageResources.promote_lua, PackageResources.refuse_lua,
            PackageResources.done_lua, PackageResources.renew_lua, PackageResources.reclaim_lua,
            PackageResources.retire_lua,
            PackageResources.due_lua, PackageResources.claim_lua, PackageResources.apply_lua,
            PackageResources.receipt_lua, PackageResources.reply_lua, PackageResources.route_lua,
            PackageResources.steer_lua,
            PackageResources.release_lua, PackageResources.recall_lua, PackageResources.replay_lua,
            PackageResources.forget_lua, PackageResources.lease_lua, PackageResources.suspect_lua,
            PackageResources.suspects_due_lua, PackageResources.suspects_settle_lua,
            PackageResources.suspects_forgive_lua, PackageResources.suspects_lua,
            PackageResources.streams_channels_lua, PackageResources.channel_note_lua,
            PackageResources.channel_forget_lua,
            PackageResources.govern_lua, PackageResources.governed_lua, PackageResources.known_lua,
            PackageResources.report_lua, PackageResources.tally_lua, PackageResources.sweep_lua,
            PackageResources.ensure_lua,
        ]
    }
}
