// SPDX-License-Identifier: Apache-2.0
// From PEFT's `adapter_config.json` to the section `model.adapter` of a deck: LoRA, by the keys of
// LoraConfig in PEFT 0.21.
#pragma once

#include <io/keys/origin.hpp>

namespace shardmark {

/// Replaces `model.adapter` by the section that it stands for: the path of an adapter_config.json,
/// or of its folder. "none" and an absent key mean no adapter, but for an absent key a config
/// beside the model's `config`, which may be empty, is taken. Throws DeckError for an adapter of
/// another kind and for keys that change the model otherwise.
void translate_adapter(Origin& origin, const std::string& config, Json& model);

}  // namespace shardmark
