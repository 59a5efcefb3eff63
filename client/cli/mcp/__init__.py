"""``rota mcp``: tools for agents, over standard input and output or over HTTP."""
