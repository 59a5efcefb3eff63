"""Response headers that name nodes."""

NODE = "Rota-Node"
"""The node that received the request."""
PRIMARY = "Rota-Primary"
"""The primary that handled a forwarded request."""
