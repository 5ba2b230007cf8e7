# SPDX-License-Identifier: Apache-2.0
"""The models of decks in plain PyTorch: GPT-2 and Llama with the shapes, biases and parameter counts
that ShardMark's have, and PyTorch's own attention."""
import json
import re

import torch
from torch import nn
from torch.nn import functional


def read_deck(path):
    """A deck without its comments, which stand on lines of their own or behind blanks."""
    text = open(path).read()
    return json.loads(re.sub(r"(^|\s)//[^\n]*", "", text))


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, bias, rotary):
        super().__init__()
        self.heads, self.kv_heads, self.size, self.rotary = heads, kv_heads, hidden // heads, rotary
        self.q = nn.Linear(hidden, hidden, bias=bias)
        self.k = nn.Linear(hidden, kv_heads * self.size, bias=bias)
        self.v = nn.Linear(hidden, kv_heads * self.size, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x, angles):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(x).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        if self.rotary:
            q, k = rotate(q, angles), rotate(k, angles)
        if self.kv_heads != self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x, angles):
    cos, sin = angles
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class Gpt2Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden = m["hidden"]
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, m["heads"], m["heads"], bias=True, rotary=False)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, angles):
        x = x + self.attention(self.norm1(x), angles)
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden, ffn = m["hidden"], m["ffn"]
        self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.attention = Attention(hidden, m["heads"], m.get("kv_heads", m["heads"]), bias=False,
                                   rotary=True)
        self.gate, self.up = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, angles):
        x = x + self.attention(self.norm1(x), angles)
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Transformer(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m, self.llama = m, m["family"] == "llama"
        hidden, vocab = m["hidden"], m["vocab"]
        self.tokens = nn.Embedding(vocab, hidden)
        self.positions = None if self.llama else nn.Embedding(m["sequence"], hidden)
        block = LlamaBlock if self.llama else Gpt2Block
        self.blocks = nn.ModuleList(block(m) for _ in range(m["layers"]))
        self.norm = nn.RMSNorm(hidden, eps=1e-5) if self.llama else nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if m.get("tied_head"):
            self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def angles(self, device, dtype):
        size = self.m["hidden"] // self.m["heads"]
        at = torch.arange(self.m["sequence"], device=device).float()
        frequency = 10000.0 ** (-torch.arange(0, size, 2, device=device).float() / size)
        angle = torch.outer(at, frequency)
        return angle.cos().to(dtype), angle.sin().to(dtype)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        angles = None
        if self.llama:
            angles = self.angles(ids.device, x.dtype)
        else:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, angles)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
