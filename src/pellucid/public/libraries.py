"""Models of other libraries as predictors: networks of PyTorch, Keras and ONNX, boosters, and files of models.

Libraries are told by the names of their modules, so that none is imported for a model of another. Networks compute in one thread
and in the mode in which they predict: no dropout, no statistics of the batch.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import MissingExtra, ModelError
from .fingerprint import fingerprinted_as

PICKLES = (".joblib", ".pkl", ".pickle", ".pt", ".pth", ".keras", ".h5", ".ubj", ".cbm", ".txt")


@dataclass(frozen=True)
class Recognised:
    """A model as it is asked here, and what its library says about it."""

    predictor: Any
    features: tuple[str, ...] | None = None
    """The columns that it was trained on, where it knows."""
    input: Any = None
    """What it is given, where that is settled."""
    output: tuple[float, float] | None = None
    """The range of its answers, where its last step settles it."""
    network: str = ""
    """What errors call it, where it takes numbers by place and knows no names."""


def recognised(predictor: Any) -> Recognised:
    """How a model of a known library is asked; any other one as it is."""
    if isinstance(predictor, str | os.PathLike):
        predictor = _opened(Path(predictor))
    modules = {kind.__module__.split(".")[0]: kind.__name__ for kind in type(predictor).__mro__}
    # Keras first: its models are modules of PyTorch, too, where that computes for them.
    if ("keras" in modules or "tensorflow" in modules) and hasattr(predictor, "layers"):
        ends = [getattr(predictor.layers[-1], "activation", None)] if predictor.layers else []
        return Recognised(KerasNetwork(predictor), None, "array", _range_of_end(ends), "network of Keras")
    if "torch" in modules and hasattr(predictor, "parameters"):
        ends = list(predictor.modules())[-1:] if type(predictor).__name__ == "Sequential" else []
        return Recognised(TorchNetwork(predictor), None, "array", _range_of_end(ends), "network of PyTorch")
    if isinstance(predictor, OnnxModel) or (type(predictor).__name__ == "InferenceSession" and hasattr(predictor, "get_inputs")):
        return _of_onnx(predictor if isinstance(predictor, OnnxModel) else OnnxModel(predictor))
    if type(predictor).__name__ == "Booster" and "xgboost" in modules:
        names = predictor.feature_names
        return Recognised(XGBoostBooster(predictor), tuple(names) if names else None, None if names else "array")
    return Recognised(predictor, _names_of(predictor))


def _names_of(predictor: Any) -> tuple[str, ...] | None:
    """The columns that boosters were trained on; made-up names of columns without one do not count."""
    if hasattr(predictor, "feature_names_in_"):
        return None
    names = getattr(predictor, "feature_names_", None)
    if names is None and callable(getattr(predictor, "feature_name", None)):
        names = predictor.feature_name()
    made_up = not names or all(str(name).removeprefix("Column_").isdigit() for name in names)
    return None if made_up else tuple(str(name) for name in names)  # type: ignore[union-attr]


def _range_of_end(ends: list[Any]) -> tuple[float, float] | None:
    named = {getattr(end, "__name__", type(end).__name__).lower() for end in ends}
    return (0.0, 1.0) if named & {"sigmoid", "softmax"} else None


def _opened(path: Path) -> Any:
    """A model from a file that can be read without running what is in it."""
    if path.suffix not in (".onnx", ".skops"):
        known = "load it first and give the model itself" if path.suffix in PICKLES else "only .onnx and .skops files are read"
        raise ModelError(f"{path.name!r} is a path, not a model; {known}.")
    if not path.is_file():
        raise ModelError(f"the model file {str(path)!r} does not exist.")
    if path.suffix == ".onnx":
        return OnnxModel(path.read_bytes())
    try:
        from skops import io
    except ImportError:
        raise MissingExtra("skops files need skops: install it with `pip install 'pellucid[skops]'`.") from None
    # Trees of scikit-learn are not on the list of skops, as a wrong one could crash; they run no code of others.
    listed = io.get_untrusted_types(file=path)
    unknown = [kind for kind in listed if not _of_scikit_learn(kind)]
    if unknown:
        raise ModelError(
            f"{path.name!r} holds types that skops does not know: {', '.join(unknown[:5])}. If you trust them, load it with "
            "skops.io.load(path, trusted=[…]) and give the model itself."
        )
    return io.load(path, trusted=listed)


def _of_scikit_learn(name: str) -> bool:
    """Whether a name in a skops file means a class that scikit-learn itself defines.

    Its modules also have names of others: `sklearn.utils._testing.check_output` runs programs. Functions are never trusted.
    """
    module, _, own = name.rpartition(".")
    if not module.startswith("sklearn.") or module.startswith("sklearn.utils._testing"):
        return False
    try:
        found = getattr(importlib.import_module(module), own)
    except Exception:
        return False
    return isinstance(found, type) and found.__module__.startswith("sklearn.")


def columns_of(answers: Any) -> np.ndarray:
    """Answers of a network as an array: one number a row, or one for each output."""
    found = np.asarray(answers, dtype=float)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


@fingerprinted_as("pellucid.libraries", "TorchNetwork")
class TorchNetwork:
    """A module of PyTorch that is given numbers, in the precision of its weights."""

    def __init__(self, module: Any):
        self.module = module
        self.__name__ = type(module).__name__

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        import torch

        first = next(self.module.parameters(), None)
        kind, device = (torch.float32, "cpu") if first is None else (first.dtype, first.device)
        with _predicting(self.module), torch.inference_mode():
            given = torch.as_tensor(np.ascontiguousarray(inputs), dtype=kind, device=device)
            return columns_of(self.module(given).detach().cpu().to(torch.float64).numpy())


@contextmanager
def _predicting(module: Any) -> Iterator[None]:
    """As it predicts, in one thread; afterwards as it was."""
    import torch

    threads, training = torch.get_num_threads(), [part for part in module.modules() if part.training]
    try:
        torch.set_num_threads(1)
        module.eval()
        yield
    finally:
        for part in training:
            part.training = True
        torch.set_num_threads(threads)


@fingerprinted_as("pellucid.libraries", "KerasNetwork")
class KerasNetwork:
    """A model of Keras that is given numbers in single precision."""

    def __init__(self, model: Any):
        self.model = model
        self.__name__ = getattr(model, "name", type(model).__name__)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        answers = self.model(np.ascontiguousarray(inputs, dtype=np.float32), training=False)
        answers = answers.detach().cpu() if hasattr(answers, "detach") else answers
        return columns_of(answers)


@fingerprinted_as("pellucid.libraries", "XGBoostBooster")
class XGBoostBooster:
    """A booster of XGBoost, which wants tables of its own kind."""

    def __init__(self, booster: Any):
        self.booster = booster
        self.__name__ = "Booster"

    def __call__(self, inputs: Any) -> np.ndarray:
        from xgboost import DMatrix

        return columns_of(self.booster.predict(DMatrix(inputs, enable_categorical=isinstance(inputs, pd.DataFrame))))


TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


@fingerprinted_as("pellucid.libraries", "OnnxModel")
class OnnxModel:
    """A model in ONNX: one table of numbers, or one input for each column."""

    def __init__(self, source: Any):
        self.source = source if isinstance(source, bytes) else None
        self._session = None if isinstance(source, bytes) else source
        self.__name__ = "ONNX model"

    def __getstate__(self) -> dict[str, Any]:
        if self.source is None:
            raise TypeError("a session of ONNX Runtime has no bytes; give the path of the .onnx file instead")
        return {"source": self.source, "__name__": self.__name__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _session=None)

    @property
    def session(self) -> Any:
        if self._session is None:
            self._session = _session_of(self.source or b"")
        return self._session

    @functools.cached_property
    def by_column(self) -> bool:
        """Whether each column is an input of its own."""
        return len(self.session.get_inputs()) > 1

    def __call__(self, inputs: Any) -> np.ndarray:
        asked = self.session.get_inputs()
        if self.by_column:
            given = {one.name: _column(inputs[one.name], one.type) for one in asked}
        else:
            given = {asked[0].name: np.ascontiguousarray(inputs, dtype=TYPES.get(asked[0].type, np.float32))}
        # Classifiers answer with labels first and with probabilities last.
        answers = self.session.run([self.session.get_outputs()[-1].name], given)[0]
        if isinstance(answers, list):
            answers = [list(row.values()) for row in answers]
        return columns_of(answers)


def _session_of(content: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("ONNX files need onnxruntime: install it with `pip install 'pellucid[onnx]'`.") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        cause = str(error)[:200]
    raise ModelError(f"ONNX Runtime cannot read the model: {cause}")


def _column(values: Any, kind: str) -> np.ndarray:
    if kind == "tensor(string)":
        return np.asarray(values, dtype=object).astype(str).astype(object).reshape(-1, 1)
    return np.asarray(values).astype(TYPES.get(kind, np.float32)).reshape(-1, 1)


def _of_onnx(model: OnnxModel) -> Recognised:
    outputs = model.session.get_outputs()
    of_classes = len(outputs) == 2 and "prob" in outputs[-1].name.lower()
    output = (0.0, 1.0) if of_classes else None
    if not model.by_column:
        return Recognised(model, None, "array", output, "model in ONNX")
    return Recognised(model, tuple(one.name for one in model.session.get_inputs()), "frame", output)
