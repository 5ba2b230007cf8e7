#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each kit finds in the output of a run that is VALID, INVALID, unofficial or stopped, with a
stand-in for the program and, where the tool is not needed for it, for the tool."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
KITS = HERE.parents[1] / "ci" / "kits"
PROGRAM = HERE / "fake_shardmark"
MEMORY = "memory: rank 0: device arena: predicted 117435136 bytes, measured 117697280"
SHORT = "2 warm-up steps, at least 3 are required; 1.2 s timed, at least 60 are required"


def output(kind):
    arguments = ["run", "gpt-tiny-z3", "--set", "deepspeed.zero_optimization.stage=3"]
    done = subprocess.run([PROGRAM, *arguments], env={**os.environ, "FAKE": kind}, text=True, capture_output=True)
    return done.stdout


def loaded(path, **modules):
    """The module of a file, with stand-ins for what it imports."""
    with mock.patch.dict(sys.modules, modules):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    return made


class Ramble:
    """Ramble's directives, which note what the application declares."""

    def __init__(self):
        self.figures, self.criteria, self.variables, self.workloads = {}, {}, set(), set()
        appkit = module("ramble.appkit", ExecutableApplication=object)
        for name in ("maintainers", "tags", "software_spec", "required_package", "executable", "workload_group"):
            setattr(appkit, name, lambda *a, **k: None)
        appkit.environment_variable = appkit.archive_pattern = lambda *a, **k: None
        appkit.workload = lambda name, **k: self.workloads.add(name)
        appkit.workload_variable = lambda name, **k: self.variables.add(name)
        appkit.figure_of_merit = lambda name, fom_regex, group_name, **k: self.figures.update({name: (fom_regex, group_name)})
        appkit.success_criteria = lambda name, match, **k: self.criteria.update({name: match})
        loaded(KITS / "ramble/applications/shardmark/application.py", **{"ramble": module("ramble"), "ramble.appkit": appkit})

    def found(self, text):
        """The figures as Ramble finds them, line by line; the last match counts."""
        found = {}
        for name, (regex, group) in self.figures.items():
            for line in text.splitlines():
                if match := re.match(regex, line):
                    found[name] = match[group]
        return found

    def succeeds(self, text):
        return all(
            any(re.match(rule.replace("{n_ranks}", "2"), line) for line in text.splitlines())
            for rule in self.criteria.values()
        )


class RambleKit(unittest.TestCase):
    def test_figures_have_the_reasons(self):
        kit = Ramble()
        valid = kit.found(output("valid"))
        self.assertEqual({"tokens_per_s": "4266.5", "class": "official", "result": "VALID", "ranks": "2"}.items() - valid.items(), set())
        self.assertNotIn("class_reasons", valid)
        invalid = kit.found(output("invalid"))
        self.assertEqual((invalid["result"], invalid["result_reasons"]), ("INVALID", MEMORY))
        self.assertEqual(invalid["class_reasons"], "SHARDMARK_FAULT=leak")
        unofficial = kit.found(output("unofficial"))
        self.assertEqual((unofficial["class"], unofficial["class_reasons"]), ("unofficial", SHORT))
        self.assertEqual(unofficial["result"], "VALID")

    def test_only_valid_runs_succeed(self):
        kit = Ramble()
        self.assertEqual([kit.succeeds(output(k)) for k in ("valid", "unofficial", "invalid", "stopped")], [True, True, False, False])


class JubeKit(unittest.TestCase):
    # JUBE's own patterns, as its documentation has them.
    NAMES = {
        "${jube_pat_fp}": r"([+-]?(?:\d*\.?\d+(?:[eE][-+]?\d+)?|\d+\.))",
        "${jube_pat_wrd}": r"(\S+)",
        "${jube_pat_int}": r"([+-]?\d+)",
    }

    def found(self, kind):
        text = output(kind)
        found = {}
        for line in (KITS / "jube/shardmark.yaml").read_text().splitlines():
            pattern = re.match(r' *- \{ name: (\w+), type: \w+,.* _: "(.*)" \}$', line)
            if not pattern or not re.search(r"[\^$]", pattern[2]) or "$jube" in pattern[1]:
                continue
            regex = pattern[2].replace("\\\\", "\\")
            for name, own in self.NAMES.items():
                regex = regex.replace(name, own)
            matches = re.findall(regex, text, re.M)
            found[pattern[1]] = matches[0] if matches else ""
        return found

    def test_the_reason_is_that_of_the_result_and_else_of_the_class(self):
        self.assertEqual(self.found("valid")["reason"], "")
        self.assertEqual(self.found("valid")["fom"], "4266.5")
        self.assertEqual(self.found("invalid")["reason"], MEMORY)
        self.assertEqual(self.found("unofficial")["reason"], SHORT)
        self.assertEqual(self.found("unofficial")["ran_on"], "2")
        self.assertIn("reason]", (KITS / "jube/shardmark.yaml").read_text(), "the reason has commas")


class ReframeKit(unittest.TestCase):
    def kit(self, text, status):
        def extract(pattern, stdout, group, convert=str):
            match = re.search(pattern, stdout, re.M)
            if not match:
                raise AssertionError(f"no match of {pattern}")
            return convert(match[group])

        def check(holds, message):
            if not holds:
                raise AssertionError(message)
            return True

        sanity = module(
            "reframe.utility.sanity",
            extractsingle=extract,
            all=all,
            assert_eq=lambda a, b: check(a == b, f"{a} != {b}"),
            assert_found=lambda pattern, stdout, message: check(re.search(pattern, stdout, re.M), message),
        )
        same = lambda f: f
        builtins = module(
            "reframe.core.builtins",
            parameter=lambda values, **k: values[-1],
            performance_function=lambda unit: same,
            run_after=lambda when: same,
            run_before=lambda when: same,
            sanity_function=same,
            variable=lambda *a, value=None: value,
        )
        frame = module("reframe", RunOnlyRegressionTest=object, simple_test=same, utility=module("reframe.utility", sanity=sanity))
        kit = loaded(
            KITS / "reframe/shardmark.py",
            **{"reframe": frame, "reframe.utility": frame.utility, "reframe.utility.sanity": sanity,
               "reframe.core": module("reframe.core"), "reframe.core.builtins": builtins},
        )
        test = kit.ShardMarkTrain()
        test.stdout, test.job = text, types.SimpleNamespace(exitcode=status)
        return test

    def test_an_invalid_run_fails_with_its_reason(self):
        self.assertTrue(self.kit(output("valid"), 0).is_valid())
        self.assertTrue(self.kit(output("unofficial"), 0).is_valid())
        self.assertEqual(self.kit(output("valid"), 0).tokens_per_s(), 4266.5)
        with self.assertRaisesRegex(AssertionError, re.escape(MEMORY)):
            self.kit(output("invalid"), 1).is_valid()


class BenchparkKit(unittest.TestCase):
    def test_its_variables_and_workloads_are_those_of_the_application(self):
        ramble = Ramble()
        variants, variables = {}, set()
        kinds = types.SimpleNamespace(Mpionly=0, Cuda=1, Strong=0, Weak=1)
        base = lambda *a: type("Base", (), {})
        kit = loaded(
            KITS / "benchpark/experiment.py",
            benchpark=module("benchpark"),
            **{
                "benchpark.directives": module("directives", maintainers=lambda *a: None, variant=lambda name, **k: variants.update({name: k})),
                "benchpark.experiment": module("experiment", Experiment=type("Experiment", (), {})),
                "benchpark.programming_model": module("programming_model", ProgrammingModel=base, ProgrammingModelType=kinds),
                "benchpark.scaling": module("scaling", Scaling=base, ScalingMode=kinds),
            },
        )
        experiment = kit.Shardmark()
        experiment.spec = types.SimpleNamespace(satisfies=lambda what: False)
        experiment.add_experiment_variable = lambda name, *a: variables.add(name)
        experiment.set_required_variables = experiment.register_scaling_config = lambda *a, **k: None
        experiment.compute_applications_section()
        self.assertEqual(set(variants["workload"]["values"]), ramble.workloads)
        self.assertLessEqual(variables - {"ranks", "n_ranks", "n_gpus"}, ramble.variables)


class BatchKits(unittest.TestCase):
    """The job's status is that of the run, and a run that was stopped is handed in again."""

    LAUNCHERS = {
        "srun": 'while [[ $1 == -* ]]; do shift; done; exec "$@"',
        "mpiexec": 'exec "$@"',
        "flux": 'if [[ $1 == resource ]]; then echo 1; exit; fi; shift; while [[ $1 == -* ]]; do [[ $1 == -? ]] && shift; shift; done; exec "$@"',
        "scontrol": 'echo "again: $*"',
        "qsub": 'echo "again: $*"',
        "bc": "cat",
    }

    def job(self, script, kind):
        with tempfile.TemporaryDirectory() as folder:
            for name, body in self.LAUNCHERS.items():
                path = pathlib.Path(folder, name)
                path.write_text(f"#!/usr/bin/env bash\n{body}\n")
                path.chmod(0o755)
            own = {"SHARDMARK_BIN": str(PROGRAM), "FAKE": kind, "SLURM_JOB_ID": "7", "PBS_JOBID": "7.host", "PBS_O_WORKDIR": folder}
            return subprocess.run(
                [KITS / "batch" / script, "gpt-tiny-z3"],
                cwd=folder, text=True, capture_output=True,
                env={**os.environ, **own, "PATH": f"{folder}:{os.environ['PATH']}"},
            )

    def test_the_status_and_the_reasons_reach_the_log(self):
        for script in ("slurm.sh", "pbs.sh", "flux.sh"):
            for kind, status, line in (
                ("valid", 0, "RESULT=VALID"),
                ("unofficial", 0, f"CLASS=unofficial ({SHORT})"),
                ("invalid", 1, f"RESULT=INVALID ({MEMORY})"),
                ("stopped", 6, "RESULT=INVALID (stopped by SIGUSR1 after step 3)"),
            ):
                with self.subTest(script=script, kind=kind):
                    job = self.job(script, kind)
                    self.assertEqual(job.returncode, status, job.stderr)
                    self.assertIn(line, job.stdout.splitlines())
                    again = kind == "stopped" and script != "flux.sh"
                    self.assertEqual("again: " in job.stdout, again)


if __name__ == "__main__":
    unittest.main()
