-- Writes a receipt into the shard's receipts, which keep a few days; with an entry, acknowledges that too: both or neither.
-- KEYS: 1 {q}receipts, then, or not at all: 2 stream of the entry that the receipt ends
-- ARGV: 1 SendReceipt, then with an entry: 2 group, 3 consumer, 4 entry
-- Returns: 1 · 0 (another owns the entry, or it was ended before; nothing was written)
redis.register_function{function_name = 'apus1_receipt', flags = {'allow-oom'}, callback = function(keys, args)
    if keys[2] and not owns(keys[2], args[2], args[3], args[4]) then
        return 0
    end
    add_receipt(tag_of(keys[1]), args[1])
    if keys[2] then
        done(keys[2], args[2], args[4])
    end
    return 1
end}
