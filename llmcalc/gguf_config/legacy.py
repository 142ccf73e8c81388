"""The first generations."""

from __future__ import annotations

from llmcalc.config import MOST_LAYERS
from llmcalc.gguf_config.source import Given, Source, architecture, around, biased


@architecture("gpt2", "starcoder", "gptj")
def gpt2(s: Source) -> Given:
    """GPT-2's names. Converters store the head once more, tied or not."""
    kind = {"starcoder": "gpt_bigcode"}.get(s.arch, s.arch)
    found = around(s, kind)
    positions = s.rows("position_embd.weight") or found.pop("max_position_embeddings")
    found.pop("max_position_embeddings", None)
    query = s.need("attention.head_count")
    more = {"multi_query": (s.maybe("attention.head_count_kv", least=1) or query) == 1} if s.arch == "starcoder" else {}
    return {
        "model_type": kind,
        "vocab_size": found["vocab_size"],
        "n_layer": s.depth,
        "n_embd": s.need("embedding_length"),
        "n_head": query,
        "n_inner": s.need("feed_forward_length"),
        "n_positions": positions,
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
        **more,
    }


@architecture("codeshell", "jais")
def as_gpt2(s: Source) -> Given:
    """GPT-2's names with rotary positions and KV groups, or with ALiBi and three matrices."""
    found = gpt2(s)
    if s.arch == "jais":
        return {**found, "position_embedding_type": "alibi", "activation_function": "swiglu"}
    kv = s.maybe("attention.head_count_kv", least=1) or found["n_head"]
    return {**found, "group_query_attention": True, "num_query_groups": kv}


@architecture("mpt")
def mpt(s: Source) -> Given:
    """Positions by ALiBi or a table; norms on q and k; no biases at all, or everywhere."""
    found = around(s, "mpt")
    query = s.need("attention.head_count")
    kv = s.maybe("attention.head_count_kv", least=1) or query
    table = s.rows("position_embd.weight")
    inner = s.first("ffn_up.weight") or s.need("feed_forward_length")
    return {
        "model_type": "mpt",
        "vocab_size": found.get("vocab_size"),
        "d_model": found["hidden_size"],
        "n_layers": s.depth,
        "n_heads": query,
        "max_seq_len": table or found.get("max_position_embeddings"),
        "no_bias": not s.any("attn_norm.bias", "ffn_up.bias"),
        "learned_pos_emb": table is not None,
        "attn_config": {
            "attn_type": "grouped_query_attention",
            "kv_n_heads": kv,
            "qk_ln": s.any("attn_q_norm.weight"),
            "alibi": table is None,
        },
        "ffn_config": {"ffn_type": "mptglu" if s.any("ffn_gate.weight") else "mptmlp", "ffn_hidden_size": inner},
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
    }


@architecture("t5")
def t5(s: Source) -> Given:
    """An encoder and a decoder, whose tensors begin with enc. and dec.; umT5 has a table of positions on every layer."""
    found = around(s, "t5")
    biases = "dec.blk.{}.attn_rel_b.weight".format
    return {
        "model_type": "umt5" if s.has(biases(1)) else "t5",
        "vocab_size": found.get("vocab_size"),
        "d_model": found["hidden_size"],
        "d_ff": s.need("feed_forward_length"),
        "d_kv": s.need("attention.key_length"),
        "num_layers": s.depth,
        "num_decoder_layers": s.maybe("decoder_block_count", least=1, most=MOST_LAYERS) or s.depth,
        "num_heads": s.need("attention.head_count"),
        "relative_attention_num_buckets": s.need("attention.relative_buckets_count"),
        "feed_forward_proj": "gated-gelu" if s.has("dec.blk.0.ffn_gate.weight") else "relu",
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
    }


@architecture("gptneox", "bloom", "falcon")
def older(s: Source) -> Given:
    """LayerNorms; Falcon's KV heads by the newer layout's keys, which can say everything."""
    found = around(s, {"gptneox": "gpt_neox"}.get(s.arch, s.arch))
    query = s.need("attention.head_count")
    if s.arch == "gptneox":
        return {**found, "num_attention_heads": query, "intermediate_size": s.need("feed_forward_length"), "attention_bias": biased(s)}
    found["n_head"] = query
    found["n_layer"] = found.pop("num_hidden_layers")
    if s.arch == "falcon":
        dim = found["hidden_size"] // query  # the key repeats a field that means nothing where all heads share one
        rows = s.first("attn_qkv.weight")
        found |= {
            "num_kv_heads": (rows // max(dim, 1) - query) // 2 if rows else s.need("attention.head_count_kv"),
            "new_decoder_architecture": True,
            "num_ln_in_parallel_attn": 2 if s.any("attn_norm_2.weight") else 1,
            "bias": biased(s),
            "ffn_hidden_size": s.need("feed_forward_length"),
        }
    return found
