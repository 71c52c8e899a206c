"""Foreign records: what somebody else says of runs that this archive never saw, and what follows from it.

``record`` is the form, ``claims`` compares figures, ``shelf`` puts the records of a name together, ``arithmetic``
derives what it can, ``quarrels`` and ``chains`` find what cannot be, ``judging`` makes an audit of it. Everything here
is *claimed*: nothing counts as a witness, and no rule of the archive's own lineage reads it.
"""
