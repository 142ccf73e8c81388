"""One file per kind of token mixer: its weights, what it caches, and what a decode step reads.

A builder takes plain dimensions and returns an Attention; the families say which keys of their config hold them.
"""
