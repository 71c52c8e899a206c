"""The model family of the published ladder, over Levanter's grug primitives: configuration, layers, mixture, loss."""
