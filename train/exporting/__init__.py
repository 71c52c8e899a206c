"""Parts of the stage ``export``: one family's map and configuration, weights, settings that agree, reading back."""
