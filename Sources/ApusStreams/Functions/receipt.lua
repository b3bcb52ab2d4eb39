-- Writes a receipt into the shard's receipts, which keep a few days.
-- KEYS: 1 {q}receipts
-- ARGV: 1 SendReceipt
-- Returns: 1
redis.register_function{function_name = 'apus1_receipt', callback = function(keys, args)
    add_receipt(tag_of(keys[1]), args[1])
    return 1
end}
