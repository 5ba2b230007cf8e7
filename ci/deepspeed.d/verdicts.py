# SPDX-License-Identifier: Apache-2.0
# Asks DeepSpeed's config class for its verdict about every section and key that it knows. Prints one
# JSON object: a list of values, and for each key one character per value, "+" where the class accepts the
# key with that value beside a batch size, and "-" where it raises. A key whose default is not among the
# values has it in "also". Needs PyPI's deepspeed; neither a GPU nor a model.
#
# Sections that are pydantic models list their keys. The others are plain dictionaries: a dictionary that
# records what is looked up in it shows which keys the class reads.
import json
import logging
import os
import sys
from datetime import date
from enum import Enum

from configs import merged, nested

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed  # noqa: E402
from deepspeed.runtime import config as ds  # noqa: E402
from deepspeed.comm.config import CommsLoggerConfig  # noqa: E402
from deepspeed.compile.config import CompileConfig  # noqa: E402
from deepspeed.inference.config import WeightQuantConfig  # noqa: E402
from deepspeed.monitor import config as monitor  # noqa: E402
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config  # noqa: E402
from deepspeed.runtime.tensor_parallel.config import TPConfig, TPTrainingConfig  # noqa: E402
from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig  # noqa: E402
from deepspeed.runtime.zero import offload_config  # noqa: E402
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig  # noqa: E402
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig  # noqa: E402
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig  # noqa: E402

MODELS = {
    "zero_optimization": DeepSpeedZeroConfig,
    "zero_optimization.offload_param": offload_config.DeepSpeedZeroOffloadParamConfig,
    "zero_optimization.offload_optimizer": offload_config.DeepSpeedZeroOffloadOptimizerConfig,
    "zero_optimization.zenflow": ZenFlowConfig,
    "zero_optimization.leaf_module": DeepSpeedZeroLeafModuleConfig,
    "fp16": DeepSpeedFP16Config,
    "bf16": DeepSpeedBF16Config,
    "bfloat16": DeepSpeedBF16Config,
    "compile": CompileConfig,
    "tensor_parallel": TPTrainingConfig,
    "tensor_parallel.tp": TPConfig,
    "hybrid_engine": ds.HybridEngineConfig,
    "weight_quantization": WeightQuantConfig,
    "comms_logger": CommsLoggerConfig,
    "tensorboard": monitor.TensorBoardConfig,
    "wandb": monitor.WandbConfig,
    "csv_monitor": monitor.CSVConfig,
    "comet": monitor.CometConfig,
    "timers.throughput": DeepSpeedThroughputTimerConfig,
}

# Keys that the class reads and that have no verdict of their own here, because other tests do.
BATCH = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}

VALUES = [None, True, False, 0, 1, -1, 2, 3, 0.5, 2.0, 1000, 1e9, "", "1", "true", "x", "auto", "cpu",
          "bf16", [], [1], ["x"], {}]

UNKNOWN = "no_such_key"

# What the class accepts and DeepSpeed then refuses or fails on, so that a reader may refuse it at once.
LATER = {
    "steps_per_print": "the engine computes with it",
    "gradient_predivide_factor": "the engine computes with it",
    "gradient_clipping": "the optimizer compares it with 0",
    "timers": "text is searched for the word throughput, and a list for that element",
    "comms_logger.prof_ops": "its elements are compared with the names of collectives",
    "zero_optimization.legacy_stage1": "the engine asserts that it is false",
    "torch_autocast.enabled": "the engine needs a dtype beside it",
    "torch_autocast.lower_precision_safe_modules": "the engine imports each name as a class of a module",
    "optimizer.type": "the engine looks other names up in torch.optim",
    "scheduler.type": "the engine looks it up among its schedulers",
    "data_types.grad_accum_dtype": "the engine looks it up among its types",
    "data_types.param_dtype": "the engine compares it with the enabled type",
    "data_types.buffer_dtype": "the engine looks it up among its types",
    "aio.block_size": "the library for files takes an integer",
    "aio.queue_depth": "the library for files takes an integer",
    "aio.intra_op_parallelism": "the library for files takes an integer",
    "aio.single_submit": "the library for files takes true or false",
    "aio.overlap_events": "the library for files takes true or false",
    "aio.use_gds": "the library for files takes true or false",
}
# What the class refuses on a machine without CUDA only.
BY_MACHINE = {"aio.use_gds": "needs CUDA"}


class Recorder(dict):
    """A dictionary that remembers which keys were looked up."""

    def __init__(self, *args):
        super().__init__(*args)
        self.seen = []

    def note(self, key):
        if key not in self.seen:
            self.seen.append(key)

    def get(self, key, default=None):
        self.note(key)
        return super().get(key, default)

    def __getitem__(self, key):
        self.note(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.note(key)
        return super().__contains__(key)

    def keys(self):
        return self

    def __copy__(self):
        return self


def verdict(config):
    """Empty, or why the class refuses the config."""
    try:
        ds.DeepSpeedConfig(json.loads(json.dumps(config)))
        return ""
    except Exception as error:  # whatever it raises, training does not start
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[0] if lines else type(error).__name__


def keys_read(path):
    """The keys that the class looks up in the dictionary at `path`."""
    recorder = Recorder({UNKNOWN: 0} if path else {"train_batch_size": 4})
    root = recorder if not path else {"train_batch_size": 4}
    at = root
    names = path.split(".") if path else []
    for name in names[:-1]:
        at[name] = {}
        at = at[name]
    if names:
        at[names[-1]] = recorder
    try:
        ds.DeepSpeedConfig(root)
    except Exception:
        pass
    return [key for key in recorder.seen if isinstance(key, str) and not key.startswith("_")]


def sections():
    """Every section with its keys, by path, parents first."""
    found, todo = {}, [""]
    while todo:
        path = todo.pop(0)
        if path in MODELS:
            names = []
            for name, field in MODELS[path].model_fields.items():
                names += [field.alias] if field.alias else []
                names.append(name)
        else:
            names = keys_read(path)
        found[path] = names
        for name in names:
            below = f"{path}.{name}" if path else name
            is_section = below in MODELS or (path not in MODELS and keys_read(below))
            if is_section and below not in found and below.count(".") < 4:
                todo.append(below)
    return found


def tried(path, name, base):
    record = {"key": f"{path}.{name}" if path else name}
    if base:
        record["beside"] = base
    values = list(VALUES)
    if path in MODELS and name in MODELS[path].model_fields:
        default = MODELS[path].model_fields[name].get_default(call_default_factory=True)
        default = default.value if isinstance(default, Enum) else default
        if isinstance(default, (int, float, str)) and default not in values:
            record["also"] = default
            values.append(default)
    configs = [merged(merged({"train_batch_size": 4}, base), nested(path, {name: value})) for value in values]
    record["verdicts"] = "".join("-" if verdict(config) else "+" for config in configs)
    return record


def write(out, keys):
    """One line per key, so that a new version of DeepSpeed shows as a short difference."""
    head = {"source": f"PyPI's deepspeed {deepspeed.__version__}, class DeepSpeedConfig on one rank, by "
                      "ci/deepspeed-trial", "date": date.today().isoformat(), "refused_later": LATER, "refused_without_cuda": BY_MACHINE,
            "values": VALUES}
    out.write("{\n" + "".join(f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()))
    out.write('"keys": [\n' + ",\n".join(json.dumps(key) for key in keys) + "\n]\n}\n")


def main():
    logging.disable(logging.CRITICAL)
    sys.stdout, out = sys.stderr, sys.stdout
    todo = [(path, name) for path, names in sections().items() for name in [*names, UNKNOWN]]
    todo += [("", name) for name in ds._REMOVED_TOP_LEVEL_CONFIG_KEYS]
    todo += [("zero_optimization", name) for name in ds._REMOVED_ZERO_CONFIG_KEYS]
    keys = []
    for path, name in dict.fromkeys(todo):
        if name not in BATCH:
            at_stage_3 = path.startswith("zero_optimization") and name != "stage"
            keys.append(tried(path, name, {"zero_optimization": {"stage": 3}} if at_stage_3 else {}))
    write(out, keys)


if __name__ == "__main__":
    main()
