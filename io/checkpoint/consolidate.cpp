// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <list>
#include <set>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/checkpoint/adapter_export.hpp>
#include <io/checkpoint/consolidate.hpp>
#include <io/checkpoint/direct_file.hpp>
#include <io/checkpoint/hdf5.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/files/durable_file.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t chunk_elems = std::int64_t{16} << 20;  // 64 MiB
constexpr std::int64_t fp32_bytes = 4;

// HDF5 reads a name as a path of groups that ends in a dataset, and stops at a zero byte. In
// safetensors one name is reserved.
void require_names(const std::string& folder, const Manifest& m) {
  const auto refuse = [&](const std::string& name, const std::string& why) {
    throw IoError(fmt::format(
        "{}: tensor {}: cannot be written to an HDF5 and a safetensors file: {}: write the "
        "checkpoint with other names in model.modules",
        folder, brief(name), why));
  };
  std::set<std::string_view> names;
  for (const StoredParam& p : m.params)
    if (!names.insert(p.name).second) refuse(p.name, "the name is given twice");
  for (const StoredParam& p : m.params) {
    if (p.name == "__metadata__") refuse(p.name, "the name is reserved");
    if (p.name.find('\0') != std::string::npos) refuse(p.name, "the name contains a zero byte");
    const std::string_view name = p.name;
    for (std::size_t at = 0, end = 0; end != std::string_view::npos; at = end + 1) {
      end = name.find('/', at);
      const std::string_view part = name.substr(at, end == std::string_view::npos ? end : end - at);
      if (part.empty() || part == ".") refuse(p.name, "a part of the name is empty or a dot");
      if (end != std::string_view::npos && names.contains(name.substr(0, end)))
        refuse(p.name, brief(std::string(name.substr(0, end))) + " is a tensor, too");
    }
  }
}

// A file that has a temporary name until it is complete.
class Unfinished {
 public:
  explicit Unfinished(std::string path) : path_(std::move(path)), temp_(path_ + ".tmp") {
    std::error_code none;
    std::filesystem::remove(temp_, none);
  }
  ~Unfinished() {
    (void)std::remove(temp_.c_str());
  }  // does not exist any more if everything went well
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::string& path() const { return path_; }
  const std::string& temp() const { return temp_; }
  void publish() const { publish_file(temp_, path_, output_remedy); }

 private:
  std::string path_, temp_;
};

// Creates the datasets of all tensors. Returns where each begins in the file, in bytes.
std::vector<std::int64_t> lay_out_hdf5(const std::string& path, const Manifest& m) {
  std::vector<std::int64_t> first_byte;
  Hdf5File file = Hdf5File::create(path, 1);
  for (const StoredParam& p : m.params)
    first_byte.push_back(file.create_dataset(p.name, Dtype::fp32, p.shape));
  const Hdf5Image image = file.finish();
  create_file(path, image.bytes, image.pieces, output_remedy);
  return first_byte;
}

// The same for safetensors: eight bytes with the length of the header, a header in JSON, then the
// tensors, which have the names of `params`, and buffers of zeros.
std::vector<std::int64_t> lay_out_safetensors(const std::string& path, const Manifest& m,
                                              std::vector<StoredParam> params) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}, {"step", std::to_string(m.position.step)}};
  std::int64_t at = 0;
  std::vector<std::int64_t> first_byte;
  for (StoredParam& buffer : zero_buffers(m, params)) params.push_back(std::move(buffer));
  for (const StoredParam& p : params) {
    first_byte.push_back(at);
    header[p.name] = {
        {"dtype", "F32"}, {"shape", p.shape}, {"data_offsets", {at, at + p.elems * fp32_bytes}}};
    at += p.elems * fp32_bytes;
  }
  std::string text = header.dump();
  // The tensors begin at a multiple of 64 bytes.
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  std::uint64_t length = text.size();
  std::string head(8, '\0');
  for (char& byte : head) byte = static_cast<char>(length & 0xff), length >>= 8;
  head += text;
  const FilePiece piece{0, std::as_bytes(std::span(head))};
  create_file(path, static_cast<std::int64_t>(head.size()) + at, {&piece, 1}, output_remedy);
  for (std::int64_t& offset : first_byte) offset += static_cast<std::int64_t>(head.size());
  return first_byte;
}

// One of the files, and where each tensor begins in it, in bytes. `lay_out` creates a file and
// returns these places.
struct Output {
  template<class LayOut>
  Output(const std::string& path, const LayOut& lay_out)
      : file(path), first_byte(lay_out(file.temp())), open(file.temp(), output_remedy) {}

  Unfinished file;
  std::vector<std::int64_t> first_byte;
  DirectFile open;
};

}  // namespace

std::vector<std::string> consolidate(const std::string& folder, const Manifest& manifest,
                                     const std::string& stem, const WorkDone& progress) {
  require_names(folder, manifest);
  const std::string adapter = adapter_config_of(manifest), of_peft = stem + ".adapter";
  std::list<Output> outputs;
  outputs.emplace_back(stem + ".h5",
                       [&](const std::string& path) { return lay_out_hdf5(path, manifest); });
  outputs.emplace_back(stem + ".safetensors", [&](const std::string& path) {
    return lay_out_safetensors(path, manifest, manifest.params);
  });
  if (!adapter.empty()) {
    std::error_code error;
    std::filesystem::create_directories(of_peft, error);
    if (error) fail_io(of_peft, "cannot be made", error.message(), output_remedy);
    std::vector<StoredParam> params = manifest.params;
    for (StoredParam& p : params) p.name = adapter_tensor_name(p.name);
    outputs.emplace_back(of_peft + "/adapter_model.safetensors", [&](const std::string& path) {
      return lay_out_safetensors(path, manifest, params);
    });
  }
  const std::int64_t all = manifest.elems();
  std::vector<float> values(static_cast<std::size_t>(std::min(chunk_elems, all)));
  // Reads in the model's order in chunks, not tensor by tensor: many tensors are smaller than a
  // block, which is always read and verified as a whole.
  std::size_t i = 0;
  std::int64_t begin = 0;  // the first element of params[i]
  for (std::int64_t first = 0, end = 0; first < all; first = end) {
    end = std::min(first + chunk_elems, all);
    const WantedElements wanted{State::master, first, end - first, Dtype::fp32,
                                reinterpret_cast<std::byte*>(values.data())};
    read_states(folder, manifest, {&wanted, 1});
    for (std::int64_t at = first; at < end;) {
      const StoredParam& p = manifest.params[i];
      const std::int64_t done = at - begin, n = std::min(end - at, p.elems - done);
      const std::span<const float> some(values.data() + (at - first), static_cast<std::size_t>(n));
      for (Output& o : outputs)
        o.open.copy({o.first_byte[i] + done * fp32_bytes, std::as_bytes(some)}, "tensor " + p.name);
      at += n;
      if (done + n == p.elems) begin = at, ++i;
    }
    progress(end * fp32_bytes, all * fp32_bytes);
  }
  for (Output& o : outputs) o.open.flush_and_close();
  std::vector<std::string> files;
  for (const Output& o : outputs) {
    o.file.publish();
    files.push_back(o.file.path());
  }
  if (!adapter.empty()) {
    files.push_back(of_peft + "/adapter_config.json");
    replace_file(of_peft, "adapter_config.json", adapter, output_remedy);
  }
  return files;
}

}  // namespace shardmark
