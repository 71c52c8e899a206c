"""MLflow as a tracker: ``client`` talks to a server or store and bounds every wait, ``tracker`` publishes."""

from registry.adapters.mlflow_store.tracker import MlflowTracker

__all__ = ["MlflowTracker"]
