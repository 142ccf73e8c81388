"""One reader per model type: which keys of its config say what, in terms of the builders in attention/ and mlp.

A reader takes the language model's Config and returns a Stack. Modules group families by descent and are imported only when
one of their types is read. To add a family: a function with @family in one of the modules, its types in MODULES, and
scripts/class_defaults.py run again.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from llmcalc.architecture import Stack
from llmcalc.config import Config

Reader = Callable[[Config], Stack]
READERS: dict[str, Reader] = {}


def family(*model_types: str) -> Callable[[Reader], Reader]:
    """Register a reader for these model types."""

    def wrap(reader: Reader) -> Reader:
        for name in model_types:
            READERS[name] = reader
        return reader

    return wrap


_TYPES = {
    "llama": """llama arcee smollm3 mistral ministral ministral3 helium granite granite_swa seed_oss ernie4_5 exaone exaone4
        nanochat apertus cwm diffllama doge hunyuan_v1_dense internlm3 olmo olmo2 olmo3 cohere cohere2 stablelm starcoder2 phi phi3
        glm glm4 persimmon nemotron bitnet qwen2 qwen3 qwen2_vl_text qwen2_5_vl_text qwen3_vl_text glm4v_text
        mllama_text_model iquestcoder jais2 emu3_text_model granite4_vision_text granite_docling_text cosmos3_edge_text
        qwen2_5_omni_text paddleocr_vl_text hunyuan_vl_text phi4_multimodal voxtral_realtime_text hyperclovax muse_glimmer_text
        molmo2_text chameleon apertus1p5_text cohere_compass_text glm_ocr_text
        exaone4_5_text qwen3_asr_text""",
    "google": "gemma gemma2 gemma3_text gemma3n_text gemma4_text gemma4_unified_text vaultgemma",
    "moe": """qwen2_moe qwen3_moe qwen3_vl_moe_text mixtral phimoe gpt_oss olmoe flex_olmo granitemoe granitemoeshared granitemoe_swa
        llama4_text minimax_m2 minimax_m3_vl_text minimax_m3 glm4_moe glm4v_moe_text ernie4_5_moe dbrx afmoe solar_open hy_v3
        exaone_moe hunyuan_v1_moe cohere2_moe mimo_v2_flash step3p5 step3p7 jetmoe dots1
        qwen3_omni_moe_text mellum aria_text sarvam_moe ernie4_5_vl_moe_text laguna kolibri1 flint beam
        muse_spark_text smallthinker inkling_text inkling2_text""",
    "deepseek": """deepseek deepseek_ocr2_text deepseek_vl_v2
        deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deepseek_v41
        deepseek_v41_text deepseek_ref kimi_k2 glm4_moe_lite glm_moe_dsa longcat_flash youtu
        minicpm3 mistral4 sarvam_mla axk1 axk2 hy_v4 hy_v4_vl_text dots3_note_text glm5_next_text mistral_large4_text""",
    "hybrid": """qwen3_next qwen3_5_text qwen3_5_moe_text olmo_hybrid kimi_linear kimi_k3 bailing_hybrid minimax minimax_m1
        minimax_text_01 nemotron-nas recurrent_gemma lfm2 lfm2_moe lfm3 zaya lara_mini qwen4_exp_text""",
    "state_space": """mamba mamba2 falcon_mamba jamba bamba falcon_h1 zamba zamba2 granitemoehybrid nemotron_h rwkv rwkv5
        rwkv6 rwkv7 rwkv6qwen2 arwkv7 plamo2 xlstm""",
    "legacy": """gpt2 gpt_bigcode gpt_neo gpt_neox gptj codegen opt bloom mpt falcon RefinedWeb RefinedWebModel xglm biogpt fuyu
        gpt-sw3 openai-gpt ctrl gpt_neox_japanese""",
    "custom": """chatglm qwen internlm internlm2 baichuan mimo PanguEmbedded minicpm minicpmv bailing_moe hunyuan
        phi-msft mixformer-sequential phi3_v phi4-siglip locateanything molmo ultravox bailingmm internvl_chat
        bailing_moe_v2 xverse skywork aquila Yi orion stablelm_epoch llava_llama llava_mistral llava_qwen Keye KeyeVL1_5 phi4mm telechat
        telechat2 plamo deci openelm codeshell jais phi3small baichuan_m1 grok-1 git arctic step3_text minicpmo telechat3 nanbeige
        plamo3 bailing_moe_linear PanguProMoE""",
    "motif": "Motif",
    "encoder": "bert roberta xlm-roberta camembert distilbert modernbert",
    "seq2seq": "t5 mt5 umt5 longt5 bart whisper t5gemma t5gemma2 mbart pegasus m2m_100 marian plbart blenderbot blenderbot-small",
}
MODULES: dict[str, str] = {model_type: module for module, types in _TYPES.items() for model_type in types.split()}


def reader(model_type: str) -> Reader | None:
    """The reader of a model type, or None where the type is not known."""
    module = MODULES.get(model_type)
    if module is None:
        return None
    import_module(f"llmcalc.families.{module}")
    return READERS[model_type]
