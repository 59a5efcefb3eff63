"""``rota audit`` and ``rota explain``: a second computation of fire times, and causes."""
