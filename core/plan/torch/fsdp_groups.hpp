// SPDX-License-Identifier: Apache-2.0
// The groups of `fully_shard`: the parameters that one call takes, which are gathered and reduced
// together. Calls come bottom-up; each takes what no earlier call has taken below its modules. Each
// parameter is cut along its first dimension by itself. For example, a parameter of 5 rows and a
// parameter of 2 rows on three ranks:
//
//     rank    0            1            2
//     row     a0 a1 b0     a2 a3 b1     a4 .. ..        '..' is padding, which is sent
//
// Source: torch 2.15, torch/distributed/fsdp/_fully_shard, _fsdp_init.py and _fsdp_param.py.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deck/torch_spec.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// A parameter in its group.
struct FsdpParam {
  int id = 0;
  std::int64_t shard = 0;  // elements per rank, padding included
  std::int64_t held = 0;   // elements of the model in this rank's shard
  std::int64_t first = 0;  // the first of them, in the parameter
  std::int64_t at = 0;     // where its shard begins in the group's row
  std::int64_t state = 0;  // where what this rank holds begins among that of the group
  std::int64_t grad = -1;  // where its shard begins in the row of gradients; -1: it has none
};

/// One group. A *row* is what each rank sends: the shards of all its parameters.
struct FsdpGroup {
  std::string name;          // of its first module; "root" for the root
  std::vector<int> modules;  // in the order of the call
  std::vector<FsdpParam> params;
  std::int64_t row = 0, grad_row = 0, held = 0, held_trained = 0;
  bool is_root = false;

  /// Its parameters that have a gradient.
  std::vector<int> trained() const;
};

/// The groups in the order of the calls. Groups without parameters are left out. Throws DeckError
/// if a name is unknown, if two groups share a parameter, or if shard_dim does not divide.
std::vector<FsdpGroup> fsdp_groups(const ModelShape& model, const TorchSpec& spec, int shard_ranks,
                                   int shard_rank, const std::string& deck_path);

}  // namespace shardmark
