"""The pure heart of rota: what a scheduler decides, and nothing about how it acts.

Nothing here reads a clock, draws a random number, touches a disk or awaits. Time and entropy
arrive as arguments; intentions leave as :mod:`rota.core.vocabulary.effects`.
"""
