"""Publishing to a hub: releases, checkpoints, and notices about what was published."""
