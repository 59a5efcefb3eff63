"""Headers of answers that name nodes."""

NODE = "Rota-Node"
"""The header of an answer: the node that was asked."""
PRIMARY = "Rota-Primary"
"""The header of a forwarded answer: the node that decides, and gave it."""
