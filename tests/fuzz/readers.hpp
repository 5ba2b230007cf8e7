// SPDX-License-Identifier: Apache-2.0
// What a fuzzer calls with any bytes, by the name of the reader.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace shardmark::test {

/// Gives `bytes` to a reader. Returns if the reader accepts them or refuses them with its own error
/// in one short line. Throws std::logic_error if that is long or not one line; any other exception
/// of the reader leaves it.
using Reader = void (*)(std::string_view bytes);

/// deck, hjson, override, manifest, tokens, config, adapter, deepspeed, machine and archive.
const std::map<std::string, Reader>& readers();

}  // namespace shardmark::test
