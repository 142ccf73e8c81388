"""A model's config.json, read key by key, with a record of what was read.

An absent key means what the model type's own class says it means, never a global default. Whatever is known to change the
cache or the parameters and was not read by anybody is an error: see `leftovers`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from llmcalc.errors import ConfigError, printable

T = TypeVar("T")
_ABSENT = object()
MOST = 10**9  # no dimension of a real model comes near; keeps a hostile one from filling the memory
MOST_LAYERS = 1024  # the deepest real ones have some 130

# How many modules predict further tokens; lists over the layers may go on into them.
AHEAD = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules")

# Blocks of a multimodal config: its towers, and the language model under its various names.
PARTS = ("vision_config", "audio_config")
TEXTS = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "llm_cfg",
    "lm_config",
    "language_model_config",
    "text_model_config",
)
# Towers under other names: of remote code, whose shape is not read.
FOREIGN = (
    *PARTS,
    "visual",
    "vision_tower",
    "mm_vision_tower",
    "vision_encoder",
    "vision_cfg",
    "audio_tower",
    "audio_model_id",
    "vq_config",
)


@cache
def class_defaults() -> dict[str, dict[str, Any]]:
    """{model_type: {"keys": {key: default}, "names": {key: old name}, "never_null": [key], "parts": {"text_config": model_type}}}.

    Written by scripts/class_defaults.py from the configuration classes of transformers.
    """
    with (Path(__file__).parent / "families" / "defaults.json").open(encoding="utf-8") as stream:
        loaded: dict[str, dict[str, Any]] = json.load(stream)
    return loaded


class Config:
    """One config, or one nested block of it. `used` holds the keys that somebody read or dismissed."""

    __slots__ = ("_defaults", "_never_null", "_old", "assumed", "model_type", "path", "raw", "used")

    def __init__(self, raw: Mapping[str, Any], model_type: str, path: str = "", defaults_of: str | None = None) -> None:
        facts = class_defaults().get(defaults_of or model_type, {})
        self.raw = raw
        self.model_type = model_type
        self.path = path
        self.used: set[str] = set()
        self.assumed: set[str] = set()
        """Keys that the file does not hold and whose class default was taken."""
        self._defaults: dict[str, Any] = facts.get("keys", {})
        self._old: dict[str, str] = facts.get("names", {})
        self._never_null: list[str] = facts.get("never_null", [])

    def seen_as(self, model_type: str, raw: Mapping[str, Any] | None = None, *, defaults_of: str | None = None) -> Config:
        """The same block read as another type: what either reader uses counts for both."""
        other = Config(self.raw if raw is None else raw, model_type, self.path, defaults_of)
        other.used = self.used
        other.assumed = self.assumed
        return other

    # ---- raw values

    def _given(self, names: Sequence[str]) -> tuple[str, Any]:
        """The first of the names that the file holds (with a value, else with null), under its old name too, else the class default."""
        found: tuple[str, Any] | None = None
        for name in names:
            for spelling in (name, self._old.get(name)):
                if spelling and spelling in self.raw:
                    self.used.update((name, spelling))
                    if self.raw[spelling] is not None:
                        return spelling, self.raw[spelling]
                    found = found or (spelling, None)
        if found:
            return found
        self.used.update(names)
        for name in names:
            for spelling in (name, self._old.get(name)):
                if spelling in self._defaults:
                    if self._defaults[spelling] is not None:
                        self.assumed.add(name)
                    return name, self._defaults[spelling]
        return names[0], None

    def has(self, *names: str) -> bool:
        """Whether the file itself holds one of the keys with a value that is not null."""
        return any(self.raw.get(name) is not None or self.raw.get(self._old.get(name, "")) is not None for name in names)

    def get(self, *names: str) -> Any:
        """The value as it stands, or null."""
        return self._given(names)[1]

    def dismiss(self, *names: str) -> None:
        """These keys do not matter here, and the caller knows why."""
        self.used.update(names)

    # ---- checked values

    def fail(self, name: str, value: Any, must: str) -> ConfigError:
        """The one error of a field: names the field, its value, the model type, and what it must be."""
        shown = "null" if value is None else printable(json.dumps(value, default=str), 60)
        where = f"{self.path}.{name}" if self.path else name
        return ConfigError(
            "bad-config",
            f"{where} is {shown} in this {printable(self.model_type)} config; it must be {must}",
            "check the config.json; if the file is right, please report the model",
        )

    def missing(self, name: str) -> ConfigError:
        """A field that has neither a value nor a class default."""
        where = f"{self.path}.{name}" if self.path else name
        return ConfigError(
            "missing-field",
            f"{where} is missing from this {printable(self.model_type)} config and has no default",
            f"add {name} to the config.json",
        )

    def maybe(self, *names: str, least: int = 1, most: int = MOST) -> int | None:
        """A whole number, or None where it is absent or null."""
        name, value = self._given(names)
        if value is None:
            if name in self.raw and not self._nullable(names):
                raise self.fail(name, None, f"a whole number from {least} to {most:,}")
            return None
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(name, value, f"a whole number from {least} to {most:,}")
        return value

    def _nullable(self, names: Sequence[str]) -> bool:
        """Whether the class itself takes null for the key (and derives a value, or switches something off)."""
        return not any(name in self._never_null for name in names)

    def count(self, *names: str, least: int = 1, most: int = MOST, default: int | None = None) -> int:
        """A whole number that is needed. Errors: bad-config, missing-field."""
        value = self.maybe(*names, least=least, most=most)
        if value is None:
            value = default
        if value is None:
            for name in names:
                if name in self.raw:
                    raise self.fail(name, None, f"a whole number from {least} to {most:,}")
            raise self.missing(names[0])
        return value

    def agreed(self, *names: str, least: int = 1, most: int = MOST) -> int:
        """One number under several names, of which a file may hold more than one: they must not contradict each other."""
        value = self.count(*names, least=least, most=most)
        for name in names:
            if self.raw.get(name) not in (None, value):
                raise self.fail(name, self.raw.get(name), f"equal to {names[0]} ({value})")
        self.dismiss(*names)
        return value

    def number(self, *names: str, default: float | None = None) -> float:
        """A finite number >= 0."""
        name, value = self._given(names)
        if value is None:
            value = default
        if value is None:
            raise self.missing(names[0])
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise self.fail(name, value, "a number >= 0")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """true or false; absent and null are the default."""
        name, value = self._given(names)
        if value is None:
            return default
        if value in (0, 1):
            return bool(value)
        raise self.fail(name, value, "true or false")

    def text(self, *names: str, default: str = "") -> str:
        """A short string."""
        name, value = self._given(names)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 20_000:
            raise self.fail(name, value, "a text")
        return value

    def items(self, *names: str, most: int = 16_384) -> list[Any] | None:
        """A list, or None where it is absent or null."""
        name, value = self._given(names)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > most:
            raise self.fail(name, value, "a list")
        return value

    def counts(self, *names: str, least: int = 0, most: int = MOST) -> list[int] | None:
        """A list of whole numbers, or None."""
        found = self.items(*names)
        if found is None:
            return None
        for value in found:
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise self.fail(names[0], found, f"a list of whole numbers from {least} to {most:,}")
        return found

    def words(self, *names: str) -> list[str] | None:
        """A list of strings, or None."""
        found = self.items(*names)
        if found is not None and not all(isinstance(value, str) for value in found):
            raise self.fail(names[0], found, "a list of texts")
        return found

    def block(self, name: str, model_type: str | None = None, defaults_of: str | None = None) -> Config | None:
        """A nested config, or None where it is absent or null."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(name, value, "a JSON object")
        inner = model_type or value.get("model_type") or self.model_type
        if not isinstance(inner, str):
            raise self.fail(f"{name}.model_type", inner, "a text")
        return Config(value, inner, f"{self.path}.{name}" if self.path else name, defaults_of)

    def by_layer(self, name: str, *known: str) -> dict[int, Config] | None:
        """Blocks of the keys `known` under layer numbers ("07" is 7: transformers writes zeros before them), or None."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(name, value, "a JSON object")
        found: dict[int, Config] = {}
        for number, given in value.items():
            if not number.isdecimal() or len(number) > 6 or not isinstance(given, Mapping) or set(given) - set(known):
                raise self.fail(name, {number: given}, f"made of {', '.join(known)} by layer number")
            where = f"{self.path}.{name}" if self.path else name
            found[int(number)] = Config(given, self.model_type, f"{where}.{number}", "none")
        return found

    # ---- the shape that nearly every model has

    @property
    def shape(self) -> frozenset[str]:
        """What was asked for of layers, width, heads and vocabulary."""
        return SHAPE & self.used

    @property
    def layers(self) -> int:
        """num_hidden_layers."""
        return self.count("num_hidden_layers", most=MOST_LAYERS)

    @property
    def hidden(self) -> int:
        """hidden_size."""
        return self.count("hidden_size")

    def per_layer(self, found: list[T] | None, name: str, layers: int, rule: Callable[[int], T]) -> list[T]:
        """One value per layer: the list of the file (with or without the MTP layers that the file names), or the class's rule."""
        if found is None:
            return [rule(layer) for layer in range(layers)]
        alone = Config(self.raw, self.model_type, self.path, "none")  # whether these keys are read is not for a list to say
        ahead = max(alone.maybe(key, least=0, most=64) or 0 for key in AHEAD) if len(found) > layers else 0
        if not layers <= len(found) <= layers + ahead:
            raise self.fail(name, found, f"a list of {layers} entries, one for each layer")
        return found[:layers]


SHAPE = frozenset(
    """num_hidden_layers n_layer n_layers num_layers hidden_size n_embd d_model num_attention_heads n_head n_heads num_heads
    vocab_size""".split()
)
# Keys known to change the cache or the parameters. Rotary settings, dropouts, token ids, activation names, initialisers and
# training settings change neither. A test holds that every key any reader asks for stands here.
SHAPING: frozenset[str] = frozenset(
    """
_block_types _remove_final_layer_norm a_low_rank_dim activation_sparsity_pattern adapter_rank add_bias_linear add_classification_head
add_cross_attention add_full_attention_sink_bias add_out_norm add_qkv_bias add_swa_attention_sink_bias additional_vocab_size
altup_num_inputs attention_bias attention_chunk_size attention_cls attention_head_dim attention_heads attention_hidden_size attention_k_eq_v
attention_layer_norm attention_layers attention_other_setting attention_out_bias attention_output_gate attention_types attention_window_size
attn_config attn_layer_indices attn_layer_offset attn_layer_period attn_output_gate attn_res_block_size attn_type_list audio_config bias
block_auto_adjust_ff_dim block_configs block_ff_dim block_ffn_dim_multiplier block_multiple_of block_overrides block_types
candidate_block_size candidate_source_layer_id candidate_topk_blocks cca_time0 cca_time1 cla_share_factor compress_rate_csa
compress_rate_hca compress_rates compress_ratios conv1d_width conv_bias conv_kernel conv_kernel_size conv_L_cache conv_window
cross_attention_layers d_ff d_inner d_kv d_model d_rel decay_low_rank_dim decoder decoder_attention_heads decoder_ffn_dim decoder_layers
decoder_sparse_step decoder_vocab_size dense_intermediate_size dense_list dense_mlp_idx dff dflash_config do_layer_norm_before
draft_vocab_size dspark_markov_rank dspark_n_routed_experts dspark_num_experts_per_tok dspark_target_layer_ids eagle_config
elementwise_attn_output_gate embed_layernorm embedding_dim embedding_size enable_bias enable_depth_attention enable_double_loop_split
enable_moe_block encoder encoder_attention_heads encoder_attention_type encoder_ffn_dim encoder_layers engram_compressed_vocab_size
engram_head_dim engram_layer_ids engram_max_ngram_size engram_n_heads engram_num_embeddings engram_vocab_size expand expanded_cache
expansion_ratio expert_ffn_hidden_size expert_hidden_dim expert_intermediate_size expert_layer_offset expert_layer_period experts_top_k
feed_forward_proj ff_intermediate_size ffn_config ffn_dim ffn_dim_divisor ffn_hidden_size ffn_multipliers ffn_proj_factor
ffn_round_up_to_multiple_of ffn_with_glu first_k_dense_replace full_attention_interval full_attn_idxs full_attn_mod gate_low_rank_dim
gated_attention_proj_granularity_type gated_norm_rank gating global_attn_every_n_layers global_head_dim group_norm_size
group_query_attention hc_count hc_lowrank hc_mult head_dim head_size heads_per_ngram hidden_size hidden_size_per_head
hidden_size_per_layer_input hybrid_layer_ids hybrid_layer_pattern hybrid_override_pattern index_block_size index_head_dim index_kpool
index_n_heads index_skip_topk_offset index_source_layer_ids index_topk index_topk_blocks index_topk_freq index_topk_pattern indexer_budget
indexer_compress_ratio indexer_head_dim indexer_kv_heads indexer_n_heads indexer_types inference_state_dtype inner_hidden_size
interleave_moe_layer_step intermediate_multiple_size intermediate_size intermediate_size_mlp is_gated_act is_moe_layer kv_channels
kv_lora_rank kv_n_heads kv_source_layer_ids kv_source_layers language_config latent_moe_use_norm laurel_rank layer_group_size
layer_norm_elementwise_affine layer_norm_type layer_types layers_block_type learned_pos_emb linear_attn_config linear_conv_kernel_dim
linear_head_dim linear_key_head_dim linear_num_heads linear_num_key_heads linear_num_value_heads linear_value_head_dim llm_config
lm_head_bias local_attention local_layer_ids loop_loss_weights loop_share_kv lru_width make_ngram_vocab_size_divisible_by mamba_conv_bias
mamba_d_conv mamba_d_head mamba_d_ssm mamba_d_state mamba_dt_rank mamba_enabled mamba_expand mamba_head_dim mamba_headdim
mamba_inner_layernorms mamba_n_groups mamba_n_heads mamba_ngroups mamba_num_heads mamba_proj_bias mamba_rms_norm mamba_step mamba_use_mlp
max_source_positions max_target_positions max_window_layers mhc_enabled mhc_expansion_rate mixer_types mla_use_output_gate mlp_bias
mlp_layer_types mlp_only_layers model_dim moe_ffn_hidden_size moe_hidden_size moe_intermediate_size moe_k moe_latent_size
moe_layer_end_index moe_layer_freq moe_layer_frequency moe_layer_interval moe_layer_num_skipped moe_layer_start_index moe_layers
moe_layers_enum moe_num_active_primary_experts moe_num_experts moe_num_primary_experts moe_num_shared_experts moe_router_enable_expert_bias
moe_router_enable_shared_expert moe_shared_expert_intermediate_size moe_top_k moe_topk mtp_hybrid_override_pattern mtp_layer_types
mtp_layers_block_type mtp_local_layer_ids mtp_mlp_layer_types mtp_num_hidden_layers mtp_transformer_layers mtp_use_dedicated_embeddings
multi_gate multi_query multi_query_attention multi_query_group_num n_ctx n_dense_first_layers n_embd n_embed n_group_heads n_groups n_head
n_head_kv n_heads n_inner n_layer n_layers n_mamba_heads n_positions n_routed_experts n_shared_experts n_shared_head
new_decoder_architecture ngram_size ngram_vocab_size_base no_bias no_kda_lora no_rope_layer_interval no_rope_layers norm_bias norm_type
normalize_qk_projections num_attention_groups num_attention_heads num_attention_heads_per_layer num_blocks num_decoder_layers
num_dense_layers num_experts num_experts_per_tok num_experts_per_token num_global_key_value_heads num_hash_layers num_heads
num_hidden_layers num_key_value_heads num_key_value_heads_per_layer num_kv_heads num_kv_heads_for_linear_attn num_kv_shared_layers
num_layers num_ln_in_parallel_attn num_local_experts num_loops num_mel_bins num_mem_blocks num_mtp_layers num_mtp_modules
num_nextn_predict_layers num_noise_heads num_query_groups num_query_heads num_shared_expert num_shared_experts num_sliding_attention_heads
num_swa_attention_heads num_swa_key_value_heads num_transformer_layers o_groups o_lora_rank output_vocab_size padded_vocab_size
parallel_attn parallel_attn_mlp_res per_layer_config ple_conv_kernel_size ple_embed_dim ple_layer_ids position_embedding_type
position_encoding_2d post_layer_norm pre_seq_len prefix_dense_intermediate_size prefix_dense_sliding_window_pattern projectors_bias
q_lora_rank qk_dim_factor qk_head_dim qk_layernorm qk_nope_head_dim qk_norm qk_norm_type qk_rope_head_dim qkv_bias qkv_proj_bias rel_extent
relative_attention_num_buckets residual_moe rmsnorm routed_expert_hidden_size router_bias router_hidden_size router_type
share_encoder_decoder_embeddings share_expert_dim share_expert_dims share_input_output_layers share_q_dim shared_expert_intermediate_size
shared_experts_intermediate_size shared_intermediate_size short_conv_kernel_size skip_bias_add_qkv sliding_window sliding_window_layers
sliding_window_layout sliding_window_pattern sliding_window_period sliding_window_size sparse_attention_config sparse_attention_freq
sparse_block_size sparse_config sparse_disable_index_value sparse_index_dim sparse_num_index_heads sparse_topk_blocks ssm_state_size
state_size swa_head_dim swa_kv_lora_rank swa_num_attention_heads swa_num_key_value_heads swa_q_lora_rank swa_qk_nope_head_dim
swa_qk_rope_head_dim swa_v_head_dim swin_norm target_hidden_size text_config thinker_config tie_embedding tie_encoder_decoder
tie_word_embeddings time_decay_extra_dim time_mix_extra_dim time_step_rank top_k_experts type_vocab_size unk_shared unpadded_vocab_size
use_attention_gate use_bias use_bidirectional_attention use_cla use_conv_bias use_double_wide_mlp use_dsa use_gemma_norm use_group_norm
use_head_wise_attn_gate use_mixed_mlp_moe use_mla use_parallel_residual use_post_norm use_qk_norm use_qkv_bias use_residual
use_sandwich_norm use_shared_attention_adapter use_sliding_window use_sparse_attention use_time_first v_dim_factor v_head_dim v_low_rank_dim
vision_config vocab_size vocab_size_per_layer_input weight_tying window_size word_embed_proj_dim zero_expert_num
    """.split()
)

# Asked for by readers, and yet no shape: names, and what only tells two layouts of one type apart.
METADATA: dict[str, str] = {
    "architectures": "names the class, for files without model_type and types that have two",
    "is_encoder_decoder": "asked by encoder-decoder classes to refuse half a model; the others have no encoder to add",
    "is_decoder": "a switch of encoders to refuse their other half",
    "num_labels": "of a classifier's head, read from its class",
    "id2label": "as num_labels",
    "dim": "distilbert's hidden_size",
    "hidden_dim": "distilbert's intermediate_size",
    "is_moe": "doge alone; elsewhere the number of experts says it",
    "architecture": "phi-msft's layout of a block, in an object of its own",
    "quantization_bit": "chatglm's own quantisation: bits, not parameters",
    "patch_size": "fuyu's patches, which other types have in their vision tower",
    "num_channels": "as patch_size",
    "scale_emb": "a factor; it tells MiniCPM-V 2 from 2.5",
    "version": "names the language model of a MiniCPM-V",
    "vision_encoder": "a name; MiniCPM-V's tower",
    "img_processor": "Phi-3-vision's tower",
    "activation_function": "its name tells jais an MLP of three matrices from one of two",
    "max_context_length": "openelm's word for the longest context",
    "max_position_embedding": "step3's word for the longest context",
    "model_version": "which RWKV-5",
    "use_long_context": "zamba2's rotary positions",
    "text_model_id": "the language model is another repository's",
}


def off(value: Any) -> bool:
    """Whether a value says that there is nothing: null, false, 0, "none", and lists and objects of nothing else."""
    if isinstance(value, list | Mapping):
        return value != [0] and all(off(each) for each in (value.values() if isinstance(value, Mapping) else value))  # [0]: a layer
    if isinstance(value, str):
        return value.lower() in ("", "none", "null", "off", "false")
    return value is None or value == 0


def leftovers(config: Config, skip: Iterable[str] = ()) -> list[str]:
    """Shaping keys that the file sets to something and that nobody read or dismissed."""
    return sorted(
        key for key, value in config.raw.items() if key in SHAPING and key not in config.used and key not in skip and not off(value)
    )
