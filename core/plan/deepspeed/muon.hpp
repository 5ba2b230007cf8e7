// SPDX-License-Identifier: Apache-2.0
// Muon's updates of whole matrices. A stage keeps gradients and momentum whole, in partitions or as
// shards; the table of placements says which ranks make the update of a matrix, when, how they come
// by the whole matrix, and where their own part goes. One walk writes the updates of all of them.
// (Stage 0 has everything whole on every rank; see core/plan/deepspeed/stage0/stage0_states.hpp.)
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <core/plan/deepspeed/stage_part.hpp>

namespace shardmark {

/// Which ranks make the update of a matrix: those whose partition has a part of it, all ranks, or
/// one rank to which it is dealt.
enum class MuonMaker : std::uint8_t { holders, every, dealt };
/// When updates are made in a step.
enum class MuonMoment : std::uint8_t { reduced, before_norm, after_norm };
/// How makers come by whole matrices: gradients and momentum are kept whole; an all_to_all of the
/// momentum among the holders; all_gathers of what partitions on the host or shards have.
enum class MuonGather : std::uint8_t { nothing, exchange, partitions, shards };
/// Where a rank's part of updates and momentum goes: it stays in its place, or it is copied to the
/// rank's partition or shards, after an all_gather of what each rank has made if they are dealt.
enum class MuonScatter : std::uint8_t { nothing, own_part, all_gather };

struct MuonPlacement {
  MuonMaker maker;
  MuonMoment moment;
  MuonGather gather;
  MuonScatter scatter;
};

/// The placement of stages 1 to 3. `offloads`: with the optimizer on the host.
MuonPlacement muon_placement(int stage, bool offloads, bool bf16_optimizer);

/// The making of updates in a workspace: declares it and writes the events that use it.
class Orthogonalizer : private DeepSpeedPart {
 public:
  explicit Orthogonalizer(DeepSpeedContext& context) : DeepSpeedPart(context) {}

  /// Start-up: declares the workspace of the largest of `matrices`, which are parameters. A run
  /// without arithmetic has none.
  void declare(const std::vector<int>& matrices);
  void acquire() {
    if (workspace_ != no_slot) w_.acquire(workspace_);
  }
  void release() {
    if (workspace_ != no_slot) w_.release(workspace_);
  }
  /// Makes the update of `matrix` from its gradient, in the gradient's place (u). The new momentum
  /// goes to `staged` (w), and `momentum` is only read (r); without `staged`, it is replaced (u).
  void update(int matrix, Operand grad, Operand momentum, std::optional<Operand> staged = {});

 private:
  int workspace_ = no_slot;
};

/// Writes Muon's updates. A placement's gathers and scatters derive from it.
class Muon : protected StagePart {
 public:
  Muon(StageContext& context, MuonPlacement placement)
      : StagePart(context), orthogonalizer_(context), placement_(placement) {}
  Muon(const Muon&) = delete;
  Muon& operator=(const Muon&) = delete;
  virtual ~Muon() = default;

  /// Start-up: acquires the momentum, which DeepSpeed makes in the first step, and buffers that
  /// stay.
  virtual void init() = 0;
  /// Makes the updates of a step if their moment has come: gradients of matrices become updates.
  /// The momentum of the `first` step is zero.
  void make_updates(MuonMoment now, bool first = false);
  /// Once the step is not skipped.
  virtual void keep_momentum() {}
  /// The end of a step, skipped or not.
  virtual void release_updates() {}

 protected:
  /// A whole matrix. With `staged` the new momentum goes there, otherwise to its place.
  struct Matrix {
    int id = 0;
    Operand grad = {}, momentum = {};
    std::optional<Operand> staged = {};
  };
  using Matrices = std::vector<Matrix>;

  /// Matrices are made whole batch by batch.
  virtual std::size_t batches() const = 0;
  virtual Matrices gather(std::size_t batch) = 0;
  virtual void scatter(std::size_t /*batch*/, const Matrices& /*made*/) {}
  /// Around the making of each update.
  virtual void before(Matrix& /*matrix*/) {}
  virtual void after(const Matrix& /*matrix*/) {}
  /// After each round of dealt matrices, one per rank.
  virtual void share(std::span<const Matrix> /*round*/) {}

  bool is_first_step() const { return first_step_; }
  /// Iterations lose the scale of the loss, so with the optimizer on the host gradients enter the
  /// momentum without it, and updates get it before they count in the norm.
  bool has_scale() const { return c_.precision.model == Dtype::fp16; }
  void count_update(std::size_t group, Operand update);

  Orthogonalizer orthogonalizer_;

 private:
  const MuonPlacement placement_;
  bool first_step_ = false;
};

}  // namespace shardmark
