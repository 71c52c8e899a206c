"""MLflow as a tracker: ``client`` talks to a server or store and bounds every wait, ``tracker`` publishes executions.

``models`` tells the versions of registered models where a release of them was published.
"""

from registry.adapters.mlflow_store.models import MlflowModels
from registry.adapters.mlflow_store.tracker import MlflowTracker

__all__ = ["MlflowModels", "MlflowTracker"]
