"""A small Hugging Face Hub of one's own: repositories, large files, commits, tags and downloads, for the real client.

It exists so that a release can be rehearsed with the unmodified client and so that a site without network can mirror
one. ``serve`` is its only door; the extra ``hub`` installs what it needs. It refuses what it does not speak (pull
requests, Xet, Spaces, git over HTTP), anonymous writes, every path or name that could leave its folder, and a second
server on the same folder.
"""
