"""Access: principals, and the verbs that they have in each namespace."""
