/// The store's share of the function library: one Lua text per function, the shared parts before those that use them.
package enum StoreFunctions {
    /// The texts, in the order in which they must stand.
    package static var sources: [[UInt8]] {
        [
            PackageResources.store_shared_lua,
            PackageResources.store_history_lua,
            PackageResources.apus1_history_add_lua,
            PackageResources.apus1_put_lua,
            PackageResources.apus1_remove_lua,
            PackageResources.apus1_mend_lua,
            PackageResources.apus1_upkeep_begin_lua,
            PackageResources.apus1_devices_lua,
            PackageResources.store_badges_lua,
            PackageResources.apus1_badge_count_lua,
            PackageResources.apus1_badge_set_lua,
            PackageResources.apus1_postings_lua,
            PackageResources.apus1_store_meta_lua,
            PackageResources.store_tokens_lua,
            PackageResources.apus1_token_claim_lua,
            PackageResources.apus1_token_confirm_lua,
            PackageResources.apus1_token_release_lua,
            PackageResources.apus1_token_owners_lua,
            PackageResources.store_users_lua,
            PackageResources.apus1_user_add_lua,
            PackageResources.apus1_user_remove_lua,
            PackageResources.apus1_user_devices_lua,
            PackageResources.store_topics_lua,
            PackageResources.apus1_topic_find_lua,
            PackageResources.apus1_topic_number_lua,
            PackageResources.apus1_topic_names_lua,
        ]
    }
}
