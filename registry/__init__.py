"""The archive: what a model is made of, as records that can be checked. Never imports JAX, never imports ``train``."""
