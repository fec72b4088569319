// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>
#include <array>
#include <functional>

#include "chunks.hpp"
#include "links.hpp"
#include "simd.hpp"

namespace mx::kv {

namespace {

constexpr size_t kCodes = 4 * Links::kPart;  // bytes of values whose codes pass at once: as codes they fit into a room
constexpr size_t kAtOnce = 512 << 10;        // bytes that a call of the system moves, about
constexpr size_t kVectors = 128;             // pieces of memory of such a call

}  // namespace

// One exchange over links.  It does what is possible, the last step of a chunk first, while it is in the caches: a part
// is added as soon as all terms of it have come, and its sum goes out at once.
class Crossing {
 public:
  Crossing(Links& links, const std::vector<Item>& items, const std::function<void(size_t)>& done)
      : links_(links), items_(items), done_(done), rank_(links.rank_), workers_(links.workers_),
        chunks_(chunks_of(items, static_cast<size_t>(workers_) * Links::kPart, kCodes)),
        streams_(static_cast<size_t>(workers_)), adder_(items) {
    const size_t bytes = static_cast<size_t>(workers_) * Links::kRooms * Links::kRoom;
    if (links.room_.size() < bytes) links.room_.resize(bytes);
    for (const Chunk& chunk : chunks_) {
      codes_at_.push_back(codes_.size());
      if (chunk.kind == Kind::kCodes) codes_.resize(codes_.size() + code_size(chunk));
    }
    for (size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].kind == Kind::kCodes) encode(i);
    }
  }

  bool run() {
    while (!finish()) {
      bool moved = false;
      for (int64_t worker = 0; worker < workers_; ++worker) {
        if (worker == rank_) continue;
        moved = receive_sums(worker) || moved;
        moved = receive_terms(worker) || moved;
        while (can_add()) add_part();
        moved = send_sums(worker) || moved;
        moved = send_terms(worker) || moved;
      }
      if (links_.failed()) return false;
      if (moved) continue;
      links_.wait([this](Links::Over over, int64_t worker) { return wants(over, worker); }, -1);
    }
    return true;
  }

 private:
  using Over = Links::Over;

  // How far the bytes of chunks have come, in their order.
  struct Place {
    size_t chunk = 0, offset = 0;
  };
  // Between this worker and another one.
  struct Streams {
    Place terms_in, terms_out, sums_in, sums_out;
  };

  // ---- what passes of a chunk ----

  size_t begin_of(int64_t worker, size_t chunk) const noexcept {
    return kv::begin_of(worker, workers_, chunks_[chunk].bytes);
  }
  static size_t code_size(const Item& item, size_t bytes) noexcept {
    return static_cast<size_t>(code_bytes(item.code, static_cast<int64_t>(bytes / sizeof(float))));
  }
  size_t code_size(const Chunk& chunk) const noexcept { return code_size(items_[chunk.pieces[0].item], chunk.bytes); }
  int64_t root(size_t chunk) const noexcept { return items_[chunks_[chunk].pieces[0].item].root; }
  Streams& streams(int64_t worker) noexcept { return streams_[static_cast<size_t>(worker)]; }

  // Calls body(piece, offset in it, bytes) for a worker's part.
  template <class Body>
  void each(size_t chunk, int64_t worker, Body&& body) const {
    chunks_[chunk].each(begin_of(worker, chunk), begin_of(worker + 1, chunk),
                        [&](const Piece& piece, size_t from, size_t to) { body(piece, from - piece.at, to - from); });
  }

  // Whether a worker sends terms of a chunk: of a first value its root does.
  bool gives(size_t chunk, int64_t worker) const noexcept {
    return chunks_[chunk].kind != Kind::kFirst || root(chunk) == worker;
  }
  // Whether a worker is sent sums: not codes, nor the root what it has given.
  bool gets(size_t chunk, int64_t worker) const noexcept {
    if (chunks_[chunk].kind == Kind::kCodes) return false;
    return chunks_[chunk].kind == Kind::kSum || root(chunk) != worker;
  }

  char* room(int64_t worker, size_t chunk) noexcept {
    const size_t place = static_cast<size_t>(worker) * Links::kRooms + chunk % Links::kRooms;
    return links_.room_.data() + place * Links::kRoom;
  }
  char* target(const Piece& piece, size_t offset) const noexcept {
    return static_cast<char*>(items_[piece.item].targets[0]) + piece.from + offset;
  }

  // The memory that a worker's terms come to: as far from each other as they are in the chunk.
  template <class Body>
  void terms_in(int64_t worker, size_t chunk, Body&& body) {
    if (!gives(chunk, worker)) return;
    char* to = room(worker, chunk);
    if (chunks_[chunk].kind == Kind::kCodes) return body(to, code_size(chunks_[chunk]));
    const size_t begin = begin_of(rank_, chunk);
    each(chunk, rank_, [&](const Piece& piece, size_t offset, size_t bytes) {
      body(to + (piece.at + offset - begin), bytes);
    });
  }
  template <class Body>
  void terms_out(int64_t worker, size_t chunk, Body&& body) {
    if (!gives(chunk, rank_)) return;
    const Kind kind = chunks_[chunk].kind;
    if (kind == Kind::kCodes) {
      return body(reinterpret_cast<char*>(codes_.data()) + codes_at_[chunk], code_size(chunks_[chunk]));
    }
    each(chunk, worker, [&](const Piece& piece, size_t offset, size_t bytes) {
      char* sent = const_cast<char*>(items_[piece.item].send) + piece.from + offset;
      body(kind == Kind::kFirst ? target(piece, offset) : sent, bytes);
    });
  }
  // Sums of `worker`'s part, where they belong.
  template <class Body>
  void sums(int64_t worker, size_t chunk, Body&& body) {
    each(chunk, worker, [&](const Piece& piece, size_t offset, size_t bytes) { body(target(piece, offset), bytes); });
  }
  template <class Body>
  void sums_in(int64_t worker, size_t chunk, Body&& body) {
    if (gets(chunk, rank_)) sums(worker, chunk, body);
  }
  template <class Body>
  void sums_out(int64_t worker, size_t chunk, Body&& body) {
    if (gets(chunk, worker)) sums(rank_, chunk, body);
  }

  // ---- streams ----

  // Notes in vectors_ the memory of chunks from a place on, before chunk `end`.
  template <class Memory>
  void collect(Place at, size_t end, Memory&& memory) {
    vectors_.clear();
    size_t skipped = at.offset, bytes = 0;
    for (size_t chunk = at.chunk; chunk < end && bytes < kAtOnce && vectors_.size() < kVectors; ++chunk) {
      memory(chunk, [&](char* data, size_t size) {
        if (skipped >= size) {
          skipped -= size;
        } else if (vectors_.size() < kVectors && bytes < kAtOnce) {
          vectors_.push_back({data + skipped, size - skipped});
          bytes += size - skipped;
          skipped = 0;
        }
      });
    }
  }

  // Moves a place on by so many bytes, and over what has none, before chunk `end`.
  template <class Memory>
  static void advance(Place& at, size_t end, size_t bytes, Memory&& memory) {
    while (at.chunk < end) {
      size_t size = 0;
      memory(at.chunk, [&](char*, size_t each) { size += each; });
      if (bytes < size - at.offset) {
        at.offset += bytes;
        return;
      }
      bytes -= size - at.offset;
      at = {at.chunk + 1, 0};
    }
  }

  size_t terms_end() const noexcept { return std::min(chunks_.size(), added_ + Links::kRooms); }

  bool receive_terms(int64_t worker) {
    const auto memory = [&](size_t chunk, auto&& body) { terms_in(worker, chunk, body); };
    Place& at = streams(worker).terms_in;
    advance(at, terms_end(), 0, memory);
    if (at.chunk >= terms_end() || !links_.connection(Over::kTerms, worker).readable) return false;
    collect(at, terms_end(), memory);
    const size_t came = links_.receive(Over::kTerms, worker, vectors_);
    advance(at, terms_end(), came, memory);
    return came > 0;
  }

  bool send_terms(int64_t worker) {
    const auto memory = [&](size_t chunk, auto&& body) { terms_out(worker, chunk, body); };
    Place& at = streams(worker).terms_out;
    return send(Over::kTerms, worker, at, chunks_.size(), memory);
  }

  bool send_sums(int64_t worker) {
    const auto memory = [&](size_t chunk, auto&& body) { sums_out(worker, chunk, body); };
    return send(Over::kSums, worker, streams(worker).sums_out, added_, memory);
  }

  template <class Memory>
  bool send(Over over, int64_t worker, Place& at, size_t end, Memory&& memory) {
    advance(at, end, 0, memory);
    if (at.chunk >= end || !links_.connection(over, worker).writable) return false;
    collect(at, end, memory);
    const size_t went = links_.send(over, worker, vectors_);
    advance(at, end, went, memory);
    return went > 0;
  }

  bool receive_sums(int64_t worker) {
    const auto memory = [&](size_t chunk, auto&& body) { sums_in(worker, chunk, body); };
    Place& at = streams(worker).sums_in;
    advance(at, chunks_.size(), 0, memory);
    if (at.chunk >= chunks_.size() || !links_.connection(Over::kSums, worker).readable) return false;
    collect(at, chunks_.size(), memory);
    const size_t came = links_.receive(Over::kSums, worker, vectors_);
    const Place before = at;
    advance(at, chunks_.size(), came, memory);
    if (came > 0) spread(worker, before, came);
    return came > 0;
  }

  // Copies sums that came to first targets from a place on to the other targets.
  void spread(int64_t worker, Place at, size_t bytes) {
    size_t skipped = at.offset;
    for (size_t chunk = at.chunk; bytes > 0; ++chunk) {
      if (!gets(chunk, rank_)) continue;
      each(chunk, worker, [&](const Piece& piece, size_t offset, size_t size) {
        if (skipped >= size) {
          skipped -= size;
          return;
        }
        const size_t came = std::min(size - skipped, bytes);
        if (came > 0) adder_.deliver(piece, offset + skipped, came, target(piece, offset + skipped), 1);
        bytes -= came;
        skipped = 0;
      });
    }
  }

  // ---- sums ----

  bool can_add() noexcept {
    if (added_ == chunks_.size()) return false;
    for (int64_t worker = 0; worker < workers_; ++worker) {
      if (worker == rank_) continue;
      const auto memory = [&](size_t chunk, auto&& body) { terms_in(worker, chunk, body); };
      advance(streams(worker).terms_in, terms_end(), 0, memory);
      if (streams(worker).terms_in.chunk <= added_) return false;
    }
    return true;
  }

  void add_part() {
    const size_t chunk = added_++;
    switch (chunks_[chunk].kind) {
      case Kind::kSum: add_own(chunk); break;
      case Kind::kFirst:
        if (root(chunk) == rank_) {
          const Piece& piece = chunks_[chunk].pieces[0];
          adder_.deliver(piece, 0, piece.bytes, target(piece, 0), 1);
        } else {
          each(chunk, rank_, [&](const Piece& piece, size_t offset, size_t bytes) {
            adder_.deliver(piece, offset, bytes, room(root(chunk), chunk), 0);
          });
        }
        break;
      case Kind::kCodes: expand_all(chunk); break;
    }
  }

  void add_own(size_t chunk) {
    const size_t begin = begin_of(rank_, chunk);
    each(chunk, rank_, [&](const Piece& piece, size_t offset, size_t bytes) {
      sources_.clear();
      for (int64_t worker = 0; worker < workers_; ++worker) {
        const char* mine = items_[piece.item].send + piece.from + offset;
        sources_.push_back(worker == rank_ ? mine : room(worker, chunk) + (piece.at + offset - begin));
      }
      adder_.add(piece, offset, bytes, sources_, nullptr, 0, 1);
    });
  }

  void encode(size_t chunk) {
    const Piece& piece = chunks_[chunk].pieces[0];
    const Item& item = items_[piece.item];
    compress(item.code, item.threshold, reinterpret_cast<const float*>(item.send + piece.from),
             item.residual + piece.from / sizeof(float), codes_.data() + codes_at_[chunk],
             static_cast<int64_t>(piece.bytes / sizeof(float)));
  }

  void expand_all(size_t chunk) {
    const Piece& piece = chunks_[chunk].pieces[0];
    const Item& item = items_[piece.item];
    const Expander expander(item.code, item.threshold);
    for (int64_t worker = 0; worker < workers_; ++worker) {
      const auto* codes = reinterpret_cast<const uint8_t*>(room(worker, chunk));
      if (worker == rank_) codes = codes_.data() + codes_at_[chunk];
      expander(codes, reinterpret_cast<float*>(target(piece, 0)), static_cast<int64_t>(piece.bytes / sizeof(float)),
               worker > 0);
    }
    adder_.deliver(piece, 0, piece.bytes, target(piece, 0), 1);
  }

  // ---- the end ----

  // Tells which items are complete; whether all are.
  bool finish() {
    while (can_add()) add_part();  // of what this worker adds without the others
    size_t complete = added_;
    for (int64_t worker = 0; worker < workers_; ++worker) {
      if (worker == rank_) continue;
      Streams& each = streams(worker);
      advance(each.terms_out, chunks_.size(), 0, [&](size_t chunk, auto&& body) { terms_out(worker, chunk, body); });
      advance(each.sums_in, chunks_.size(), 0, [&](size_t chunk, auto&& body) { sums_in(worker, chunk, body); });
      advance(each.sums_out, added_, 0, [&](size_t chunk, auto&& body) { sums_out(worker, chunk, body); });
      complete = std::min({complete, each.terms_out.chunk, each.sums_in.chunk, each.sums_out.chunk});
    }
    if (complete > complete_) fence_streams();  // what is complete may be read
    for (; complete_ < complete; ++complete_) {
      for (const Piece& piece : chunks_[complete_].pieces) {
        if (!piece.last) continue;
        while (next_ <= piece.item) done_(next_++);
      }
    }
    if (complete_ < chunks_.size()) return false;
    while (next_ < items_.size()) done_(next_++);  // of no bytes
    return true;
  }

  short wants(Over over, int64_t worker) {
    const Streams& each = streams(worker);
    const Place &in = over == Over::kTerms ? each.terms_in : each.sums_in,
                &out = over == Over::kTerms ? each.terms_out : each.sums_out;
    const bool receives = in.chunk < (over == Over::kTerms ? terms_end() : chunks_.size());
    const bool sends = out.chunk < (over == Over::kTerms ? chunks_.size() : added_);
    return static_cast<short>((receives ? POLLIN : 0) | (sends ? POLLOUT : 0));
  }

  Links& links_;
  const std::vector<Item>& items_;
  const std::function<void(size_t)>& done_;
  const int64_t rank_, workers_;
  const std::vector<Chunk> chunks_;
  std::vector<Streams> streams_;  // by workers
  size_t added_ = 0, complete_ = 0;  // chunks
  size_t next_ = 0;                  // item that is not complete
  Adder adder_;
  std::vector<uint8_t> codes_;  // of this worker's gradients
  std::vector<size_t> codes_at_;  // by chunks
  std::vector<const void*> sources_;
  std::vector<iovec> vectors_;
};

bool Links::exchange(const std::vector<Item>& items, const std::function<void(size_t)>& done) {
  return Crossing(*this, items, done).run();
}

}  // namespace mx::kv
