# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Shardmark(CMakePackage, CudaPackage):
    """ShardMark is an HPC mini-app for machines that train large models. It trains a transformer
    under ZeRO stage 0, 1, 2 or 3, predicts its memory to the byte and its collectives to the
    call, and proves both while it runs."""

    homepage = "https://example.org/shardmark"
    git = "https://example.org/shardmark.git"

    tags = ["proxy-app", "machine-learning"]

    maintainers("shardmark")

    license("Apache-2.0")

    version("main", branch="main")

    variant("native", default=True, description="Tune for the processor of the build machine")
    variant("tests", default=False, description="Build the tests")

    generator("ninja")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10:+mpi")
    depends_on("nlohmann-json@3.9:")
    depends_on("cli11@2:")
    depends_on("fmt@9:")
    depends_on("xxhash@0.8:")
    depends_on("libzip@1:")
    depends_on("yaml-cpp@0.6:")
    depends_on("googletest", type="build", when="+tests")

    with when("~cuda"):
        depends_on("kokkos@3.4:")
        depends_on("onednn@2:")
    with when("+cuda"):
        depends_on("kokkos@4.5:+cuda+wrapper cxxstd=20")
        depends_on("nccl@2.14:")
        for _arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos cuda_arch={_arch}", when=f"cuda_arch={_arch}")
            depends_on(f"nccl cuda_arch={_arch}", when=f"cuda_arch={_arch}")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPU: cuda_arch=90 is that of an H100")
    conflicts("%gcc@:10", msg="C++20 is needed")

    # spack test run needs no compiler: it runs the installed program.
    test_requires_compiler = False

    def cmake_args(self):
        args = [
            self.define_from_variant("SHARDMARK_NATIVE", "native"),
            self.define_from_variant("SHARDMARK_BUILD_TESTS", "tests"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        else:
            # A CUDA toolkit outside Spack is not to be compiled with.
            args.append(self.define("CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit", True))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(self.prefix.bin.shardmark)("decks")

    def test_plan(self):
        """plan what rank 0 of 64 would do"""
        program = which(self.prefix.bin.shardmark, required=True)
        out = program("plan", "gpt2-124m-z3", "--ranks", "64", output=str.split, error=str.split)
        check_outputs([r"all_gather", r"reduce_scatter"], out)

    def test_train(self):
        """train a tiny model on two ranks until it is VALID"""
        # The mpiexec of this build's MPI, which need not be the one on PATH.
        launcher = which("mpiexec", path=self.spec["mpi"].prefix.bin) or which(
            "mpiexec", "srun", required=True
        )
        for stage in range(4):
            with test_part(self, f"test_train_stage_{stage}", purpose=f"ZeRO stage {stage}"):
                out = launcher(
                    "-n",
                    "2",
                    self.prefix.bin.shardmark,
                    "run",
                    f"gpt-tiny-z{stage}",
                    "--set",
                    "run.steps=20",
                    output=str.split,
                    error=str.split,
                )
                check_outputs([r", 2 ranks,", r"FOM tokens_per_s=[0-9.]+", r"RESULT=VALID"], out)
