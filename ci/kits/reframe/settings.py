# SPDX-License-Identifier: Apache-2.0
"""ReFrame: any machine on which `mpiexec` starts ranks on this node. A site gives its own file.

ReFrame's built-in system `generic` starts tests without MPI, so a test for two ranks would run on
one. This file names a launcher.
"""

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "this node, through mpiexec",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "node",
                    "scheduler": "local",
                    "launcher": "mpiexec",
                    "environs": ["default"],
                    "max_jobs": 1,
                }
            ],
        }
    ],
    "environments": [{"name": "default", "cc": "cc", "cxx": "c++", "ftn": ""}],
}
