// SPDX-License-Identifier: Apache-2.0
// What PEFT and transformers expect of an exported checkpoint beside its tensors: the names and the
// config of an adapter, and values that transformers keeps outside of parameters.
#pragma once

#include <string>
#include <vector>

#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// Returns the text of PEFT's adapter_config.json for the run that wrote a checkpoint; empty if it
/// trained no adapter. Throws IoError if the deck in the manifest is no deck.
std::string adapter_config_of(const Manifest& manifest);

/// Returns PEFT's name of a trained tensor in adapter_model.safetensors: without the name of the
/// adapter, and of a copy that of the module in whose place it is.
std::string adapter_tensor_name(std::string name);

/// The buffers that transformers loads beside these parameters, all of zeros: the corrections with
/// which routers of DeepSeek V3 balance experts outside of the gradient.
std::vector<StoredParam> zero_buffers(const Manifest& manifest,
                                      const std::vector<StoredParam>& params);

}  // namespace shardmark
