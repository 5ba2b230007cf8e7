# SPDX-License-Identifier: Apache-2.0
# Lets a Spack core of version 0.23 read packages that are written for Spack 1, as cmake.py does.
from spack.build_systems.cuda import CudaPackage
