// SPDX-License-Identifier: Apache-2.0
// From a Hugging Face model config (`config.json`) to the section `model` of a deck: gpt2, llama,
// mistral and qwen2, as far as their shapes are those of the families `gpt2` and `llama`. Names and
// defaults are those of transformers 5.23.
// From PEFT's `adapter_config.json` to the section `model.adapter` of a deck: LoRA, by the keys of
// LoraConfig in PEFT 0.21.
#pragma once

#include <io/keys/origin.hpp>

namespace shardmark {

/// Returns the section `model` for the config in the file `path`. `section` has keys of the deck
/// beside the file, which replace what the config says. Throws DeckError for a config that is not
/// sound, and for one that says what a description cannot.
Json model_from_config(Origin& origin, const std::string& path, const Json& section);

/// Replaces `model.adapter` by the section that it stands for: the path of an adapter_config.json,
/// or of its folder. "none" and an absent key mean no adapter, but for an absent key a config
/// beside the model's `config`, which may be empty, is taken. Throws DeckError for an adapter of
/// another kind and for keys that change the model otherwise.
void translate_adapter(Origin& origin, const std::string& config, Json& model);

}  // namespace shardmark
