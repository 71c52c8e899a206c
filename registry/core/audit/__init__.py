"""Audit: rules that judge every edge from an artifact back to its origins, each a pure function of evidence.

``edges`` has the words, ``evidence`` what was gathered, one module a group of rules, ``judging`` puts them together.
Refuses to hold when nothing was checked.
"""
