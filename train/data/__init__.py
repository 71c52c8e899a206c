"""Parts of the data stages: pinned wheels, their licences and members, documents, shards, tokenizer, token caches."""
