// SPDX-License-Identifier: Apache-2.0
// From a Hugging Face model config (`config.json`) to the section `model` of a deck: gpt2, llama,
// mistral and qwen2, as far as their shapes are those of the families `gpt2` and `llama`. Names and
// defaults are those of transformers 5.23.
#pragma once

#include <io/keys/origin.hpp>

namespace shardmark {

/// Returns the section `model` for the config in the file `path`. `section` has keys of the deck
/// beside the file, which replace what the config says. Throws DeckError for a config that is not
/// sound, and for one that says what a description cannot.
Json model_from_config(Origin& origin, const std::string& path, const Json& section);

}  // namespace shardmark
