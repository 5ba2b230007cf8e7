# SPDX-License-Identifier: Apache-2.0
"""Stands in for PyTorch where a visit asks for its version."""
__version__ = "stand-in"


class version:
    cuda = "none"


class cuda:
    @staticmethod
    def is_available():
        return False
