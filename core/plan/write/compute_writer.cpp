// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/kernels.hpp>
#include <core/plan/model/layout_offsets.hpp>
#include <core/plan/model/mixture_sizes.hpp>
#include <core/plan/write/compute_writer.hpp>

namespace shardmark {

ComputeWriter::ComputeWriter(Program& program, PlanWriter& writer, const Profile& profile)
    : p_(program),
      w_(writer),
      trains_(program.trains),
      units_(program.model.units.size()),
      again_(program.model.recomputed_before()),
      decoder_(trains_ ? decoder_of(program.model.spec) : SharedDecoder()),
      divided_(trains_ && program.model.spec.part.cuts()),
      tensors_(program, writer),
      sequences_(program, writer),
      experts_(program, writer, tensors_) {
  for (int m : p_.model.computing(VisitKind::pre_forward)) {
    const int unit = p_.model.modules[m].unit;
    if (unit < 0) continue;  // an alias in a unit without parameters
    UnitBuffers& u = units_[unit];
    if (u.first_module < 0) u.first_module = m;
    u.last_module = m;
  }
  for (int m : p_.model.computing(VisitKind::pre_backward)) {
    const int unit = p_.model.modules[m].unit;
    if (unit < 0) continue;
    UnitBuffers& u = units_[unit];
    if (u.first_backward < 0) u.first_backward = m;
    u.last_backward = last_backward_ = m;
  }
  if (trains_) declare(profile);
}

void ComputeWriter::declare(const Profile& profile) {
  const TransformerDims d = transformer_dims(p_);
  const std::int64_t stream = checked_mul(d.rows(), d.hidden, "activations");
  tokens_ = w_.slot("tokens", Category::activation, Dtype::int32,
                    checked_mul(d.micro_batch, d.sequence + 1, "tokens"));
  dx_ = w_.slot("dx", Category::activation, d.dtype, stream);
  loss_ = w_.slot("loss", Category::workspace, Dtype::fp64, 1);
  if (decoder_->moe.balance_loss > 0)
    balance_ = w_.slot("balance", Category::activation, Dtype::fp32, balance_elems(d, d.layers));
  if (divided_) {
    partial_ = w_.slot("partial", Category::activation, d.dtype, stream);
    std::int64_t summed = stream;
    if (experts_.divides()) summed = std::max(summed, size_mul(row_lanes(d).places, d.hidden));
    tensors_.declare(d.dtype, summed, profile);
    logits_at_ = head_saved(d).dlogits / dtype_bytes(d.dtype);
    logits_ = checked_mul(d.rows(), d.gathered_vocab(), "logits");
  }
  for (int u = 0; u < std::ssize(units_); ++u) {
    const Unit& unit = p_.model.units[u];
    UnitBuffers& s = units_[u];
    if (u > 0) s.x_in = w_.slot("x." + unit.name, Category::activation, d.dtype, stream);
    const TransformerDims of_unit = u > 0 ? dims_of_layer(d, u - 1) : d;
    auto workspace = [&](const char* prefix, Kernel kernel) {
      const std::int64_t bytes =
          workspace_bytes(of_unit, unit.kind, kernel, profile.workspace_cap_bytes);
      return bytes == 0 ? no_slot
                        : w_.slot(prefix + unit.name, Category::workspace, Dtype::uint8, bytes);
    };
    s.workspace_forward = workspace("forward.", Kernel::forward);
    s.workspace_backward = workspace("backward.", Kernel::backward);
    s.saved = saved_slot(u, d.dtype, saved_elems(of_unit, unit.kind));
  }
}

// If activations are recomputed, one block at a time has them, and blocks that save as much use the
// same slot. Where some layers have experts and others none, there are two.
int ComputeWriter::saved_slot(int unit, Dtype dtype, std::int64_t elems) {
  if (elems == 0) return no_slot;
  bool first = drops(unit);
  for (int u = 0; u < unit && drops(unit); ++u) {
    if (!drops(u) || units_[u].saved == no_slot) continue;
    if (w_[units_[u].saved].elems == elems) return units_[u].saved;
    first = false;
  }
  const std::string name = first ? "block" : p_.model.units[unit].name;
  return w_.slot("saved." + name, Category::activation, dtype, elems);
}

void ComputeWriter::begin_micro(int micro_batch) {
  first_micro_ = micro_batch == 0;
  in_backward_ = false;
  if (!trains_) return;
  w_.acquire(tokens_);
  w_.ensure({partial_, balance_, tensors_.scratch(), sequences_.positions()});
  std::vector<Operand> loaded{w_.write(tokens_)};
  if (sequences_.divides()) loaded.push_back(sequences_.own_positions());
  w_.compute(Kernel::load_batch, loaded);
}

void ComputeWriter::end_forward(int module, const ParamPlaces& where) {
  const ProductCut cut = p_.model.modules[module].cut;
  const bool head = role(module) == Role::head;
  if (cut == ProductCut::none || (cut == ProductCut::columns && !head)) return;
  if (head) {
    const AxisPart& part = p_.model.spec.part;
    const int saved = units_[p_.model.modules[module].unit].saved;
    const std::int64_t own = logits_ / part.ranks;
    // Gathered logits lie in the pieces that the head makes, one per rank and all of one size.
    tensors_.gather(w_.read(saved, logits_at_ + part.rank * own, own),
                    w_.write(saved, logits_at_, logits_));
  } else {
    tensors_.sum(w_.update(partial_));
  }
  // Each rank adds the bias of the product to the sum of all parts.
  const std::vector<int> params = p_.model.params_of(module);
  if (head || params.size() < 2) return write(Kernel::forward_end, module, {}, {});
  write(Kernel::forward_end, module, {where(params[1])}, std::span(params).last(1));
}

void ComputeWriter::end_backward() {
  if (open_ < 0) return;
  const int module = std::exchange(open_, -1);
  if (exchanged(module)) return end_exchanged(Kernel::backward_end, module);
  if (role(module) == Role::attn_proj)
    return sequences_.backward(attention_place(module, Kernel::backward));
  tensors_.sum(w_.update(partial_));
  // Each rank's part is as many times the gradient as there are ranks.
  if (p_.model.modules[module].folded)
    w_.compute(Kernel::scale, {w_.update(partial_)}).divisor = p_.mesh.tensor_ranks();
  write(Kernel::backward_end, module, {}, {});
}

void ComputeWriter::begin_exchanged(Kernel kernel, int module) {
  if (!exchanged(module) || std::exchange(begun_, -1) >= 0) return;
  const bool forward = kernel == Kernel::forward_begin;
  experts_.begin(forward, module);
  write(kernel, module, {}, {});
  if (forward) {
    experts_.send_counts();
    if (experts_.routes()) write(Kernel::count_routed, module, {}, {});
  }
  experts_.send_away(forward);
}

void ComputeWriter::begin(int module, VisitKind visit) {
  const bool forward = visit == VisitKind::pre_forward;
  if (!exchanged(module) || !(forward || visit == VisitKind::pre_backward)) return;
  forward ? end_backward() : open_backward(module);
  begin_exchanged(forward ? Kernel::forward_begin : Kernel::backward_begin, module);
  begun_ = module;
}

void ComputeWriter::end_exchanged(Kernel kernel, int module) {
  experts_.send_home(kernel == Kernel::forward_end);
  write(kernel, module, {}, {});
  experts_.end();
}

void ComputeWriter::end_micro() {
  end_backward();
  w_.drop({tensors_.scratch(), partial_, balance_, sequences_.positions(), tokens_});
}

// Whether the unit's forward drops what it saves because backward makes it again.
bool ComputeWriter::drops(int unit) const {
  return p_.model.recompute && p_.model.units[unit].kind == UnitKind::block;
}

Role ComputeWriter::role(int module) const {
  return trains_ ? p_.model.modules[module].role : Role::list;
}

int ComputeWriter::slot_of(ModuleBuffer buffer, int unit, Kernel kernel) const {
  const UnitBuffers& u = units_[unit];
  switch (buffer) {
    case ModuleBuffer::tokens: return tokens_;
    case ModuleBuffer::x_in: return u.x_in;
    case ModuleBuffer::x_out: return units_[unit + 1].x_in;
    case ModuleBuffer::dx: return dx_;
    case ModuleBuffer::saved: return u.saved;
    case ModuleBuffer::loss: return loss_;
    case ModuleBuffer::workspace:
      return kernel == Kernel::forward ? u.workspace_forward : u.workspace_backward;
    case ModuleBuffer::partial: return partial_;
    case ModuleBuffer::balance: return balance_;
    default: return experts_.slot_of(buffer);
  }
}

// From the second micro-batch on the loss is added to. A router writes the sums of its own layer.
Operand ComputeWriter::operand_of(const BufferUse& use, int unit, Kernel kernel) const {
  const int slot = slot_of(use.buffer, unit, kernel);
  if (use.buffer == ModuleBuffer::balance && use.writes) {
    const TransformerDims d = transformer_dims(p_);
    const std::int64_t first = balance_elems(d, unit - 1);
    return w_.write(slot, first, balance_elems(d, unit) - first);
  }
  const bool adds = use.buffer == ModuleBuffer::loss && !first_micro_;
  return w_.whole(slot, use.reads || adds, use.writes);
}

Role ComputeWriter::last_before_attention() const {
  const NormSpec& norm = decoder_->norm;
  return norm.qk != QkNorm::none && norm.qk_last ? Role::k_norm : Role::v;
}

AttentionPlace ComputeWriter::attention_place(int module, Kernel kernel) const {
  const int unit = p_.model.modules[module].unit;
  return {unit, module, slot_of(ModuleBuffer::saved, unit, kernel),
          slot_of(ModuleBuffer::workspace, unit, kernel)};
}

void ComputeWriter::write(Kernel kernel, int module, std::vector<Operand> operands,
                          std::span<const int> params) {
  const int unit = p_.model.modules[module].unit;
  const Module& m = p_.model.modules[module];
  const auto uses = trains_ ? buffers_of(*decoder_, m, kernel) : std::span<const BufferUse>();
  for (const BufferUse& use : uses) operands.push_back(operand_of(use, unit, kernel));
  Event& e = w_.compute(kernel, operands, params);
  e.unit = unit;
  e.module = module;
}

// Whether a module writes what its unit passes on.
bool ComputeWriter::writes_output(int module, bool last) const {
  const Module& m = p_.model.modules[module];
  return last || (m.adapted && m.role == Role::mlp_proj && !decoder_->norms_after());
}

namespace {

// Whether the backward of a block's last module needs what its own forward saves.
bool saves_for_itself(Role role) {
  return role == Role::experts || role == Role::shared_router || role == Role::post_norm2;
}

}  // namespace

void ComputeWriter::forward(int module, const ParamPlaces& where) {
  const int unit = p_.model.modules[module].unit;
  const UnitBuffers u = unit < 0 ? UnitBuffers{} : units_[unit];
  const bool last = trains_ && module == u.last_module;
  end_backward();
  if (trains_ && module == u.first_module) {
    if (!in_backward_ && unit + 1 < static_cast<int>(units_.size()))
      w_.ensure({units_[unit + 1].x_in});
    w_.ensure({u.saved, u.workspace_forward});
  }
  // The backward of the last module waits for its block's recomputation, which need not include
  // that module's own output, but may need what it saves beside it. The re-entrant kind, which
  // does not know what is saved, computes it all the same.
  const bool again = in_backward_ && trains_ && writes_output(module, last);
  if (!(again && last) || p_.model.reentrant || saves_for_itself(role(module))) {
    const int out = again ? units_[unit + 1].x_in : no_slot;
    const bool dead = out != no_slot && !w_.alive(out);
    if (dead) w_.acquire(out);
    const std::vector<int> ids = p_.model.params_of(module);
    std::vector<Operand> operands;
    for (int id : ids) operands.push_back(where(id));
    begin_exchanged(Kernel::forward_begin, module);
    // Without arithmetic, a norm without weights has nothing to do.
    if (trains_ || !ids.empty()) write(Kernel::forward, module, std::move(operands), ids);
    if (exchanged(module)) end_exchanged(Kernel::forward_end, module);
    if (divided_) end_forward(module, where);
    if (sequences_.divides() && role(module) == last_before_attention())
      sequences_.forward(attention_place(module, Kernel::forward));
    if (dead) w_.release(out);
  }
  if (!last) return;
  w_.drop({u.workspace_forward, drops(unit) && !in_backward_ ? u.saved : no_slot});
  if (u.last_backward < 0) w_.drop({u.saved, u.x_in});
}

void ComputeWriter::write_backward(int module, const ParamPlaces& where,
                                   const std::vector<int>& trained,
                                   std::span<const Operand> grads) {
  std::vector<Operand> operands;
  for (int id : trained) operands.push_back(where(id));
  const bool in_parts = p_.model.modules[module].in_parts;
  const std::vector<Operand> made =
      in_parts ? tensors_.begin_gradients(grads) : std::vector(grads.begin(), grads.end());
  operands.insert(operands.end(), made.begin(), made.end());
  if (trains_)
    for (int id : p_.model.params_of(module))
      if (!p_.model.params[id].trained()) operands.push_back(where(id));
  write(Kernel::backward, module, std::move(operands), trained);
  if (in_parts) tensors_.sum_gradients(made, grads);
}

// Before anything of a module's backward is written.
void ComputeWriter::open_backward(int module) {
  in_backward_ = true;
  end_backward();
  const int unit = p_.model.modules[module].unit;
  const UnitBuffers u = unit < 0 ? UnitBuffers{} : units_[unit];
  if (trains_) w_.ensure({dx_, module == u.first_backward ? u.workspace_backward : no_slot});
}

void ComputeWriter::backward(int module, const ParamPlaces& where, std::span<const Operand> grads) {
  open_backward(module);
  const std::vector<int> trained = p_.model.trained_params_of(module);
  const bool passes_on = trains_ && p_.model.modules[module].input_gradient;
  begin_exchanged(Kernel::backward_begin, module);
  if (!trained.empty() || passes_on) write_backward(module, where, trained, grads);
  const Module& m = p_.model.modules[module];
  const bool exchanges =
      exchanged(module) || (sequences_.divides() && role(module) == Role::attn_proj);
  const bool adds_up = divided_ && (m.cut == ProductCut::columns || m.folded);
  if (exchanges || adds_up) open_ = module;
  drop_after_backward(module);
}

void ComputeWriter::drop_after_backward(int module) {
  if (!trains_) return;
  const UnitBuffers& u = units_[p_.model.modules[module].unit];
  if (module == u.last_backward) w_.drop({u.workspace_backward, u.saved, u.x_in});
  if (module == last_backward_) w_.drop(dx_);
}

}  // namespace shardmark
