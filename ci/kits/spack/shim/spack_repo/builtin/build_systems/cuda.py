# SPDX-License-Identifier: Apache-2.0
# As cmake.py.
from spack.build_systems.cuda import CudaPackage
