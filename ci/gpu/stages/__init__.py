# SPDX-License-Identifier: Apache-2.0
"""The stages of a visit to a GPU, and what they share."""
