# SPDX-License-Identifier: Apache-2.0
# Builds DeepSpeed configs from key paths, for the trial and for its comparison.


def nested(path, value):
    """{"a": {"b": value}} of "a.b"; the value itself of an empty path."""
    for name in reversed(path.split(".")) if path else []:
        value = {name: value}
    return value


def merged(base, extra):
    """`base` with the keys of `extra`, section by section."""
    result = dict(base)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result
