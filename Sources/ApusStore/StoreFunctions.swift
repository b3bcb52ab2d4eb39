/// Lists the store's part of the function library: one Lua text per subject, the shared parts before those that use them.
package enum StoreFunctions {
    /// The texts, in the order in which they must stand.
    package static var sources: [[UInt8]] {
        [
            PackageResources.store_shared_lua, PackageResources.history_shared_lua, PackageResources.history_lua,
            PackageResources.undo_shared_lua, PackageResources.undo_lua,
            PackageResources.devices_lua, PackageResources.badges_lua, PackageResources.tokens_lua,
            PackageResources.users_lua, PackageResources.topics_lua,
        ]
    }
}
